"""Everything that ended badly in a text, and the one of them that matters most under the uniform keys.

Order: a native crash, a Java crash, what a process said of its own end, a library that the linker refused, a
low-memory kill, a watchdog, a panic, a GPU fault. All of them are in `incidents`.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.crash import classes
from farm.evidence.crash.java import JavaCrashes
from farm.evidence.crash.kernel import KernelEvents
from farm.evidence.crash.kills import LowMemoryKills
from farm.evidence.crash.native import NativeCrashes
from farm.evidence.lines import Facts, Line, split

MAX_SAYINGS = 100
MAX_SHOWN = 100

#: What a process says of its own end, without a signal's block behind it.
_SAYING = re.compile(
    r"terminating (?:due to|with)|libc\+\+abi|terminate called|DeviceLost|DEVICE_LOST|device lost"
    r"|OpenCL [Ee]rror|CL_[A-Z]{3,}_|VK_ERROR"
    r"|OutOfDeviceMemory|OutOfHostMemory|dlopen failed|not accessible for the namespace"
    r"|CANNOT LINK EXECUTABLE|error while loading shared"
    r"|GGML_ASSERT|bad_alloc|FORTIFY: |fdsan: |Scudo ERROR|assertion .{0,300} failed"
    r"|Assertion .{0,300} failed|Check failed: "
    r"|failed to allocate|AddressSanitizer|Segmentation fault|[Ii]llegal instruction|GL_OUT_OF_MEMORY"
    r"|memory allocation of size|what\(\): "
)
_SHELL = {
    "Segmentation fault": ("SIGSEGV", 11),
    "segmentation fault": ("SIGSEGV", 11),
    "llegal instruction": ("SIGILL", 4),
}
_GPU_CLASSES = ("gpu_device_lost", "gpu_alloc_failure")
_LINKER = ("dlopen_failed", "linker_namespace")


class CrashParser:
    """Feed it lines; `finish` gives the uniform keys and all incidents."""

    def __init__(self) -> None:
        self._native = NativeCrashes()
        self._java = JavaCrashes()
        self._kills = LowMemoryKills()
        self._kernel = KernelEvents()
        self._sayings: list[dict[str, Any]] = []

    def feed(self, raw: str) -> None:
        line = split(raw)
        if not line.text.strip():
            return
        if self._native.feed(line):
            return
        if self._kills.feed(line):
            return
        if self._java.feed(line):
            return
        if self._kernel.feed(line):
            return
        if _SAYING.search(line.text) or (line.tag == "linker" and "dlopen" in line.text):
            self._say(line)

    def _say(self, line: Line) -> None:
        text = line.text.strip()
        signal = next((value for word, value in _SHELL.items() if word in text), None)
        name = classes.by_message(text) or (
            "illegal_instruction" if signal and signal[1] == 4 else "native_crash" if signal else None
        )
        if name is None or len(self._sayings) >= MAX_SAYINGS:
            return
        self._native.context(line.pid, text)
        saying = {"class": name, "pid": line.pid, "tid": line.tid, "message": text[:1000]}
        if line.package and line.package != "?":
            saying["process"] = line.package
        if signal:
            saying.update(signal=signal[1], signal_name=signal[0])
        self._sayings.append({key: value for key, value in saying.items() if value is not None})

    def finish(self) -> Facts:
        native = [crash.core() for crash in self._natives()]
        java = [crash.core() for crash in self._java.found]
        kills = [kill.core() for kill in self._kills.found]
        kernel = self._kernel.facts()
        system = self._system(kernel)
        spoken = sorted(self._sayings, key=_weight)
        ranked = [*native, *java, *spoken, *kills, *system]
        facts: Facts = dict(ranked[0]) if ranked else {}
        if spoken and ranked[0] is spoken[0] and "pid" not in facts:  # a line without prefix; its process said more
            other = next((saying for saying in spoken if "pid" in saying), {})
            facts.update({key: other[key] for key in ("pid", "tid", "process") if key in other})
        facts.update(kernel)
        facts["incidents"] = ranked[:MAX_SHOWN]
        facts["count"] = len(ranked)
        return facts

    def _natives(self) -> list[Any]:
        """A crash whose own process said why just before it died."""
        for saying in self._sayings:
            if saying["class"] not in _LINKER:
                self._native.context(saying.get("pid"), saying["message"])
        return self._native.found

    def _system(self, kernel: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if "system_watchdog" in kernel:
            found.append(
                {"class": "system_server_crash", "process": "system_server", "message": kernel["system_watchdog"]}
            )
        if kernel["kernel_panic"]:
            found.append({"class": "kernel_panic", "message": kernel["panic_reason"]})
        elif "kernel_oops" in kernel:
            found.append({"class": "kernel_oops", "message": kernel["kernel_oops"]})
        if "watchdog" in kernel:
            found.append({"class": "watchdog_reset", "message": kernel["watchdog"]})
        for fault in kernel.get("gpu_faults", [])[:1]:
            incident = {"class": "gpu_fault", "pid": fault["pid"], "message": fault["text"]}
            found.append({key: value for key, value in incident.items() if value is not None})
        return found


def _weight(saying: dict[str, Any]) -> int:
    """A GPU's or an allocation's failure says more than the exception that followed it."""
    order = [*_GPU_CLASSES, "allocation_failure", "dlopen_failed", "linker_namespace"]
    return order.index(saying["class"]) if saying["class"] in order else len(order)
