"""What the kernel and the boot loader say: panics, GPU faults, watchdogs, why the device came up again.

Boot messages that only name such things ("kernel panic handler initialized", "Page fault detect: PASSED", "last reset
is due to software reset") are none of them. Sources: the kernel's `kernel/panic.c`, the drivers mali, kgsl, panfrost,
msm, arm-smmu, Android's `bootstat` and `dumpstate`, boot loaders' logs as vendors append them to the last kernel log.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.lines import Line

MAX_FAULTS = 200
MAX_LINE = 400

_PANIC = re.compile(r"\bKernel panic - not syncing(?:: (.{0,300}))?", re.I)
_OOPS = re.compile(
    r"Unable to handle kernel |Internal error: (?:Oops|synchronous|undefined)|BUG: (?:unable|KASAN"
    r"|scheduling)|kernel BUG at "
)
_BOOT_REASON = re.compile(
    r"(?:last boot ?reason|boot ?reason|reboot ?reason|reset ?reason|power ?(?:up|on) ?reason"
    r"|sys\.boot\.reason(?:\.last)?|ro\.boot\.bootreason"
    r"|PMIC.{0,20}power-o(?:n|ff) reason)(?:\]?\s*[:=]|\s+is)\s*\[?(?:0x[0-9a-f]+ ?[-:(]* ?)?([^\]\n]{1,120})",
    re.I,
)
_WATCHDOG_REASON = re.compile(
    r"watchdog|\bwdt|wdog|\bwd_?reset|apc[ _]wd|\bwd\b|hw_wdt|sec_wdt|dog ?bite|dog ?bark", re.I
)
_WATCHDOG = re.compile(
    r"watchdog (?:bark|bite|reset\b|timed out|timer expired)|(?:non-secure|secure) (?:wdog"
    r"|watchdog) (?:bark|bite)|apps? watchdog"
    r"|RST_STAT.{0,60}(?:WDT|WATCHDOG)(?:_?RESET|RST)"
    r"|last reset (?:was|is due to) .{0,40}(?:watchdog|wdt)",
    re.I,
)
_SYSTEM_WATCHDOG = re.compile(r"\*\*\* WATCHDOG KILLING SYSTEM PROCESS: (.{0,500})")
_GPU = (
    (
        "mali",
        re.compile(
            r"\bmali\b.{0,80}(?:GPU fault|Unhandled Page fault|unhandled page fault|job fault|GPU hang"
            r"|t6xx: GPU fault|Reset failed|resetting gpu)"
            r"|CS_FA(?:ULT|TAL)\.EXCEPTION_TYPE|\bpanthor.{0,60}fault",
            re.I,
        ),
    ),
    (
        "kgsl",
        re.compile(
            r"\bkgsl\b.{0,80}(?:fault|hang|gpu timeout|fence timeout)|GPU PAGE FAULT|\|kgsl\w*\|.{0,80}fault"
            r"|Adreno-GSL.{0,200}errno 35|IOCTL_KGSL\w+\) failed: errno 35|adreno.{0,40}(?:hang"
            r"|fault) detected",
            re.I,
        ),
    ),
    (
        "msm drm",
        re.compile(
            r"\*\*\* gpu fault: iova|\bmsm\w*[ :].{0,60}(?:gpu fault|hangcheck detected|gpu lockup)"
            r"|hangcheck detected gpu lockup|\[drm:\w*hangcheck",
            re.I,
        ),
    ),
    ("panfrost", re.compile(r"\bpanfrost\b.{0,80}(?:gpu sched timeout|Unhandled Page fault|js fault)", re.I)),
    ("powervr", re.compile(r"PVR_K.{0,120}(?:HWR|Recovery \d|page fault|lockup)|\brogue\b.{0,60}lockup", re.I)),
    ("lima", re.compile(r"\blima\b.{0,60}(?:task error|mmu page fault|fail to save)", re.I)),
)
#: Words of which a line of `_GPU` has one: far quicker to look for.
_GPU_WORDS = (
    *("fault", "hang", "lockup", "reset", "timeout", "cs_fa", "errno 35", "task error", "hwr", "recovery"),
    "fail to save",
)
_NO_FAULT = re.compile(r"detect\w*: PASSED|fault[ _]?(?:handler|detect)\w* (?:init|regist|enabled)|Probe:", re.I)
_PID = re.compile(r"\bpid[:= ]{1,3}(\d{1,10})\b|\bprocess .{1,40}\((\d{1,10})\)|[\w.]\[(\d{1,10})\]: gpu fault", re.I)


class KernelEvents:
    """Takes lines of the kernel's, the boot loader's and Android's own account of reboots."""

    def __init__(self) -> None:
        self.panic: str | None = None
        self.oops: str | None = None
        self.boot_reason: str | None = None
        self.watchdog: str | None = None
        self.system_watchdog: str | None = None
        self.gpu_faults: list[dict[str, Any]] = []
        self.gpu_count = 0
        self._continues = 0

    def feed(self, line: Line) -> bool:
        """Whether the line tells of such an event."""
        text = line.text
        low = text.lower()
        if "panic" in low and (match := _PANIC.search(text)):
            self.panic = self.panic or (match[1] or text).strip()[:MAX_LINE]
            return True
        if "KILLING SYSTEM" in text and (match := _SYSTEM_WATCHDOG.search(text)):
            self.system_watchdog = self.system_watchdog or match[1].strip()
            return True
        if "reason" in low and (match := _BOOT_REASON.search(text)):
            self._reason(match[1].strip())
            return True
        if ("watchdog" in low or "wdog" in low or "RST_STAT" in text) and _WATCHDOG.search(text):
            self.watchdog = self.watchdog or text.strip()[:MAX_LINE]
            return True
        if ("kernel" in low or "bug" in low or "oops" in low) and _OOPS.search(text):
            self.oops = self.oops or text.strip()[:MAX_LINE]
            return True
        return self._gpu(line, text)

    def _reason(self, reason: str) -> None:
        self.boot_reason = self.boot_reason or reason[:120]
        if reason.lower().startswith("kernel_panic"):
            self.panic = self.panic or reason[:120]
        elif _WATCHDOG_REASON.search(reason):
            self.watchdog = self.watchdog or reason[:120]

    def _gpu(self, line: Line, text: str) -> bool:
        tagged = f"{line.tag} {text}" if line.tag else text
        low = tagged.lower()
        if not any(word in low for word in _GPU_WORDS):
            return self._more(line, text)
        driver = next((name for name, pattern in _GPU if pattern.search(tagged)), None)
        if driver is None or _NO_FAULT.search(text):
            return self._more(line, text)
        self.gpu_count += 1
        if len(self.gpu_faults) < MAX_FAULTS:
            self.gpu_faults.append({"driver": driver, "text": text.strip()[:MAX_LINE], "pid": _pid(text)})
            self._continues = 12
        return True

    def _more(self, line: Line, text: str) -> bool:
        """The lines that describe a fault follow it, indented: among them the process."""
        if self._continues <= 0 or not text.strip() or (line.bare and not text[0].isspace()):
            return False
        self._continues -= 1
        if self.gpu_faults[-1]["pid"] is None and (pid := _pid(text)) is not None:
            self.gpu_faults[-1]["pid"] = pid
            return True
        return False

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kernel_panic": self.panic is not None, "gpu_fault": self.gpu_count > 0}
        for key, value in (
            ("panic_reason", self.panic),
            ("kernel_oops", self.oops),
            ("boot_reason", self.boot_reason),
            ("watchdog", self.watchdog),
            ("system_watchdog", self.system_watchdog),
        ):
            if value is not None:
                found[key] = value
        if self.gpu_faults:
            found.update(gpu_faults=self.gpu_faults[:20], gpu_fault_count=self.gpu_count)
        return found


def _pid(text: str) -> int | None:
    match = _PID.search(text)
    return int(match[1] or match[2] or match[3]) if match else None
