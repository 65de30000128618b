"""Kind of evidence → how it is recognised and who reads it. `farm evidence KIND` and `auto` know no other list.

A kind of a *log* is found anywhere in a stream; a *snapshot* is the output of one command. `sign` matches a line that
only this kind prints; `needles` are words of which a log must hold one before anybody looks at its lines, and then
at those around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from farm.evidence import (
    adb_errors,
    adb_output,
    battery,
    cpu,
    dumpsys_misc,
    memory,
    model_load,
    props,
    thermal,
    thermalservice,
    tracing,
)
from farm.evidence.anr import AnrParser
from farm.evidence.crash import CrashParser
from farm.evidence.lines import Collected, Facts, Parser, feed_all


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `weight`: how sure one sign makes; a word that others print too counts less."""

    name: str
    words: str
    parser: Callable[[], Parser]
    sign: re.Pattern[str]
    weight: int = 1
    log: bool = False
    needles: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # those of them that say all in their own line


class Whole:
    """A small output, read as a whole at its end; what exceeds the bound is left out and said so."""

    def __init__(self, read: Callable[[str], Facts], most: int = 20_000) -> None:
        self._read = read
        self._lines = Collected(most=most)

    def feed(self, line: str) -> None:
        self._lines.feed(line)

    def finish(self) -> Facts:
        facts = dict(self._read(self._lines.text))
        return {**facts, "truncated": True} if self._lines.truncated else facts


def _kind(name: str, words: str, parser: Callable[[], Parser], sign: str, weight: int = 1) -> Kind:
    return Kind(name, words, parser, re.compile(sign), weight)


_KINDS = (
    _kind(
        "adb_devices",
        "adb devices [-l]: one line per transport",
        lambda: Whole(adb_output.devices_core),
        r"^List of devices attached|^\S.{0,100}\s(?:device|offline|unauthorized|no permissions|recovery"
        r"|sideload)(?: usb:| product:| transport_id:|; see|\s*$)"
        r"|^ERROR:\s+-->\s+\(\w+\)",
        2,
    ),
    _kind(
        "adb_errors",
        "adb's messages of failure",
        adb_errors.AdbErrors,
        r"^(?:adb(?:\.exe)?: |error: (?:device|closed|no devices|more than one|insufficient"
        r"|could not install)|failed to copy '|adb server version|protocol fault)"
        r"|protocol fault|files? (?:pushed|pulled)\b|device unauthorized|more than one device"
        r"|secure_mkdirs failed|didn't ACK",
        2,
    ),
    Kind(
        "anr",
        "applications that did not respond",
        AnrParser,
        re.compile(
            r"\bANR in |\bam_anr\b|ANR \(application not responding\)|Input dispatching timed out"
            r"|is not responding\. Waited|^\"main\" prio="
            r"|^DALVIK THREADS|^Subject: (?:Input|Broadcast|executing|Context\.start|ContentProvider)"
            r"|^-{4,} (?:Waiting Channels: )?pid \d+ at |reason=6 \(ANR\)"
            r"|did not then call Service\.startForeground|MessageQueue\.nativePollOnce"
            r"|BinderProxy\.transact|^\s*\| (?:sysTid|group)="
        ),
        3,
        True,
        (
            "ANR ",
            "am_anr",
            "not responding",
            "dispatching timed out",
            "----- pid ",
            "sysTid=",
            "DALVIK THREADS",
            "startForeground()",
            "CPU usage from",
            "nativePollOnce",
            "BinderProxy",
            "Subject: ",
            "prio=",
            '"ev":"stage_',
        ),
    ),
    Kind(
        "crash",
        "native and Java crashes, low-memory kills, GPU and kernel faults, reboots",
        CrashParser,
        re.compile(
            r"Fatal signal \d|^(?:\*\*\* ){5}|>>> .{1,300} <<<|FATAL EXCEPTION|lowmemorykiller: Kill"
            r"|\blmkd\b.{0,10}: Kill|Kill(?:ed|ing)? '.{1,200}' \(\d+\)"
            r"|Kernel panic - not syncing|gpu fault: iova|GPU fault 0x|Unhandled Page fault"
            r"|^[a-z][\w.]+(?:Exception|Error): |libc\+\+abi: terminating"
            r"|is not accessible for the namespace|dlopen failed|Reboot reason: |[Bb]oot reason: |DeviceLost"
            r"|OpenCL Error|_native_crash|errno 35 Resource deadlock"
            r"|Out of memory: Kill|WATCHDOG KILLING"
        ),
        3,
        True,
        (
            "Fatal signal",
            "FATAL EXCEPTION",
            " >>> ",
            "*** ***",
            "Kill '",
            "Killing",
            "Killed process",
            "Kernel panic",
            "kernel_panic",
            "gpu fault",
            "GPU fault",
            "GPU FAULT",
            "age fault",
            "PAGE FAULT",
            "CS_FA",
            "kgsl",
            "hangcheck",
            "libc++abi",
            "terminate called",
            "terminating",
            "dlopen",
            "for the namespace",
            "oot reason",
            "eset reason",
            "ootreason",
            "boot.reason",
            "RST_STAT",
            "atchdog",
            "WATCHDOG",
            "DeviceLost",
            "DEVICE_LOST",
            "OpenCL E",
            "OpenCL e",
            "CL_OUT_OF",
            "CL_MEM_OBJ",
            "CL_INVALID",
            "VK_ERROR",
            "am_crash",
            "killinfo",
            "am_kill",
            "errno 35",
            "Exception: ",
            "Error: ",
            "GGML_ASSERT",
            "bad_alloc",
            "Scudo",
            "FORTIFY",
            "has died",
            "am_proc_died",
            "CANNOT LINK",
            "Segmentation",
            "llegal instruction",
            "OutOfDeviceMemory",
            "of size",
        ),
        ("Killing", "killinfo", "am_kill", "am_proc_died", "has died", "am_crash"),
    ),
    _kind(
        "dumpsys_battery",
        "dumpsys battery",
        lambda: Whole(battery.core, 2_000),
        r"^Current Battery Service state|^\s{2,4}(?:AC|USB|Wireless) powered: (?:true|false)",
        3,
    ),
    _kind(
        "cpu",
        "/proc/cpuinfo, /sys/devices/system/cpu, lscpu",
        lambda: Whole(cpu.core),
        r"^/?sys/devices/system/cpu/|^processor\s*: \d|^CPU (?:implementer|part|architecture)\s*:|^\s*(?:On"
        r"|Off)-line CPU\(s\) list|^Features\s*:",
        2,
    ),
    _kind(
        "getprop",
        "getprop: the properties themselves",
        lambda: Whole(props.core, 50_000),
        r"^\s*\[[\w.\-]{3,120}\]: \[",
        2,
    ),
    _kind(
        "memory",
        "/proc/meminfo, status, smaps, dumpsys meminfo, procrank",
        lambda: Whole(memory.core, 200_000),
        r"^(?:MemTotal|MemAvailable|SwapTotal|VmRSS|VmSize|Pss|Rss|SwapPss):\s+\d+ kB|^\*\* MEMINFO in pid"
        r"|^\s*PID\s+Vss\s+Rss|^\s*App Summary$|^Applications Memory Usage"
        r"|^\d,\d+,[\w.:]+,\d+,|^proc,\w+,|^No process found for:|^\s*Native Heap\s+\d"
        r"|^\s*TOTAL(?: PSS)?:?\s+\d+",
        2,
    ),
    Kind(
        "model_load",
        "whether an engine loaded its model, and if not, why",
        model_load.ModelLoad,
        re.compile(
            r"gguf_init|error loading model|failed to load model|rkllm|\bRKNN\b|rknn_init"
            r"|Failed to (?:initialize|create) engine|Load model error|Model load failure"
            r"|create MNN|\bMNNJNI\b|mnn_?llm|Executorch Error|not a valid Flatbuffer|NN API returned"
            r"|llama_model_load|mModelDir"
        ),
        4,
        True,
        model_load.NEEDLES,
    ),
    _kind(
        "sysfs_thermal",
        "/sys/class/thermal, sensors",
        lambda: Whole(thermal.core),
        r"thermal_zone\d+|^[\w.\-]+-virtual-\d+$|^\s*[\w\-.]*(?:therm|tsens|_tz|battery|cpu|gpu|soc"
        r"|npu)[\w\-.]*\s*[: ]\s*-?\d{2,6}(?:\.\d+)?\s*$|^(?:tsens_tz_sensor\d+|[a-z_]+_therm\d?)$"
        r"|denied .{0,60}name=\"thermal\"",
        2,
    ),
    _kind(
        "thermalservice",
        "dumpsys thermalservice",
        lambda: Whole(thermalservice.core),
        r"^IsStatusOverride|^Thermal Status: \d|Temperature\{mValue=|^HAL Ready: ",
        3,
    ),
    Kind(
        "tracing",
        "simpleperf, perf, perfetto, atrace",
        tracing.Tracing,
        re.compile(
            r"perfetto_cmd\.cc|^simpleperf [EWI] |Performance counter statistics|perf_event_open"
            r"|traced_consumer|[Tt]racing service connection|^\s*[\d,]+\s+(?:cpu-cycles|instructions)\b"
            r"|\btraced\b.{0,40}avc:|comm=\"traced\""
        ),
        4,
        True,
        tracing.NEEDLES,
    ),
    _kind(
        "dumpsys_misc",
        "dumpsys cpuinfo, gfxinfo, window; ps, top",
        dumpsys_misc.DumpsysMisc,
        r"^CPU usage from |^\s*\d[\d.]*% \d+/|^\*\* Graphics info for pid|^Total frames rendered|^(?:USER"
        r"|UID)\s+PID\s+PPID|mCurrentFocus=|^\s*PID\s+USER\s.*(?:ARGS|COMMAND)$"
        r"|^Applications Graphics Acceleration",
        2,
    ),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}


def parse(kind: str, lines: Iterable[str]) -> Facts:
    """The facts of `kind` in `lines`. KeyError for a kind that is not there."""
    return feed_all(KINDS[kind].parser(), lines)
