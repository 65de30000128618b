"""What is kept of an app that does not respond: the system's lines and the trace of its threads, before it is ended."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.evidence.anr import AnrParser
from runner.engines.base import AppNotResponding
from runner.engines.process import TAIL_CHARS, join, stacks_of

#: How long the system may take to write the trace.
TRACE_WAIT_S = 15.0
_NEWEST = "cat $(ls -t /data/anr/* 2>/dev/null | head -n 4) 2>/dev/null"
_DROPBOX = "dumpsys dropbox --print data_app_anr 2>/dev/null | tail -c 400000"


class Log(Protocol):
    """The system's words about the package."""

    anr: str | None
    lines: deque[str]


def not_responding(device: Device, package: str, pid: int | None, log: Log, stage: str | None) -> AppNotResponding:
    """The failure with its evidence. The trace file needs root on many builds: then dropbox, then debuggerd."""
    end = time.monotonic() + TRACE_WAIT_S
    trace = ""
    while not trace and time.monotonic() < end:
        time.sleep(0.5)
        trace = _trace_of(_ask(device, _NEWEST), package, pid)
    trace = trace or _trace_of(_ask(device, _DROPBOX), package, pid) or stacks_of(device, pid)
    lines = "\n".join(log.lines)
    parser = AnrParser()
    for line in f"{lines}\n{trace}".splitlines():
        parser.feed(line)
    cause = str(parser.finish().get("cause") or "unknown")
    where = f" in stage {stage}" if stage else ""
    evidence = join((lines, f"--- trace\n{trace[:TAIL_CHARS]}"))
    return AppNotResponding(
        f"the app does not respond{where}: {cause}: {log.anr}", evidence=evidence, details={"cause": cause}
    )


def _trace_of(text: str, package: str, pid: int | None) -> str:
    """The newest block of this process in trace files: `----- pid N at …` to `----- end N -----`."""
    for block in text.split("----- pid ")[1:]:
        number, _, rest = block.partition(" ")
        same = number == str(pid) if pid is not None else f"Cmd line: {package}" in rest[:2000]
        if same and f"----- end {number}" in rest:
            return f"----- pid {block.partition(f'----- end {number}')[0]}----- end {number} -----"
    return ""


def _ask(device: Device, command: str) -> str:
    try:
        return device.shell(command, 20.0, max_output=4 << 20).stdout
    except AdbError as error:
        return f"(not to be had: {error})"
