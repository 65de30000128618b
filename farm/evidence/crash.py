"""How a native process died: the tombstone block, libc's one line before it, and the low-memory killer's line.

A tombstone begins with a line of stars and is printed by Android's `debuggerd` into `/data/tombstones`, into the crash
log buffer (with a log prefix before every line), and, by engines that handle their own fatal signals, to stderr. Read
here: pid, tid, thread, process, signal, code, fault address, abort message, backtrace. A field that is not there is
None. Source of the format: Android's system/core/debuggerd (tombstone.cpp) and lmkd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

MAX_LINES = 20_000
MAX_FRAMES = 256
MAX_CRASHES = 50

#: What a log viewer puts before a line: `logcat -v threadtime`, `brief`, and the studio's form.
_PREFIX = re.compile(
    r"^(?:\d{2}-\d{2} [\d:.]+\s+\d+\s+\d+ [VDIWEFA] [^:]{1,40}?\s*: |[VDIWEFA]/[^(]{1,40}\(\s*\d+\): "
    r"|\d{4}-\d{2}-\d{2} [\d:.]+\s+\d+-\d+\s+\S+\s+\S+\s+[VDIWEFA]  )"
)
_HEAD = re.compile(r"pid: (\d{1,10}), tid: (\d{1,10}), name: (.{0,100}?)\s+>>> (.{0,300}?) <<<")
_SIGNAL = re.compile(r"signal (\d{1,3}) \((\w+)\)(?:, code (-?\d+) \((\w+)[^)]*\))?(?:, fault addr (\S+))?")
_LIBC = re.compile(
    r"Fatal signal (\d{1,3}) \((\w+)\)(?:, code (-?\d+)(?: \((\w+)[^)]*\))?)?(?:, fault addr (\S+))?"
    r" in tid (\d{1,10})(?: \(([^)]{0,100})\))?(?:, pid (\d{1,10})(?: \(([^)]{0,100})\))?)?"
)
_ABORT = re.compile(r"^\s*Abort message: '?(.{0,4000}?)'?\s*$")
_FRAME = re.compile(r"^\s*#(\d{1,3}) +pc +([0-9a-fA-F]+) +(.{0,1000})$")
_LMKD = re.compile(
    r"(?:lowmemorykiller|lmkd)\S{0,3} (?:Kill|Killing) '(.{1,200}?)' \((\d{1,10})\)"
    r"(?:.{0,400}?to free (\d+) ?kB)?(?:.{0,400}?reason: (.{1,200}))?"
)
_FREED = re.compile(r"to free (\d+) ?kB")


@dataclass(frozen=True, slots=True)
class Crash:
    """One native crash."""

    signal: int
    signal_name: str
    code_name: str | None = None
    fault_addr: str | None = None
    pid: int | None = None
    tid: int | None = None
    thread: str | None = None
    process: str | None = None
    abort_message: str | None = None
    backtrace: tuple[str, ...] = ()

    @property
    def klass(self) -> str:
        """What kind of death, by the closed list of the evidence kinds; `native_crash` when none fits better."""
        message = self.abort_message or ""
        for needle, name in _MESSAGE_CLASSES:
            if needle in message:
                return name
        if self.code_name in ("SEGV_MTESERR", "SEGV_MTEAERR"):
            return "mte_tag_check_sync" if self.code_name == "SEGV_MTESERR" else "mte_tag_check_async"
        return {"SIGILL": "illegal_instruction", "SIGABRT": "abort"}.get(self.signal_name, "native_crash")

    def words(self) -> str:
        """One line: `SIGSEGV (SEGV_MAPERR) at 0x0 in farm-engine, thread farm-engine, in decode+120`."""
        parts = [self.signal_name]
        if self.code_name:
            parts.append(f"({self.code_name})")
        if self.fault_addr and set(self.fault_addr) - {"-"}:
            parts.append(f"at {self.fault_addr}")
        if self.process or self.thread:
            parts.append(f"in {(self.process or self.thread or '').rsplit('/', 1)[-1]}")
        named = next((m[1] for frame in self.backtrace if (m := re.search(r"\(([\w:~<>,& *]+\+\d+)\)", frame))), None)
        if named:
            parts.append(f"at {named}")
        if self.abort_message:
            parts.append(f"— {self.abort_message[:200]}")
        return " ".join(parts)

    def core(self) -> dict[str, Any]:
        """Under the uniform keys of `farm evidence crash`; what is not known is left out."""
        found = {
            "class": self.klass,
            "signal": self.signal,
            "code_name": self.code_name,
            "pid": self.pid,
            "tid": self.tid,
            "thread": self.thread,
            "process": self.process,
            "abort_message": self.abort_message,
            "fault_addr": self.fault_addr,
        }
        return {key: value for key, value in found.items() if value is not None}


_MESSAGE_CLASSES = (
    ("Scudo ERROR", "heap_corruption_scudo"),
    ("FORTIFY:", "fortify"),
    ("fdsan:", "fdsan_abort"),
    ("Assertion", "assertion_abort"),
    ("assertion", "assertion_abort"),
    ("GGML_ASSERT", "assertion_abort"),
    ("bad_alloc", "allocation_failure"),
    ("out of memory", "allocation_failure"),
)


@dataclass(frozen=True, slots=True)
class LowMemoryKill:
    """The system ended a process to get its memory. `freed_kb`: None where the line does not say."""

    process: str
    pid: int
    freed_kb: int | None
    reason: str | None
    line: str


def crashes(text: str) -> list[Crash]:
    """Every native crash in a tombstone, a log or an engine's stderr, in order; a block and its libc line are one."""
    found: list[Crash] = []
    for line in text.splitlines()[:MAX_LINES]:
        _take(found, _PREFIX.sub("", line[:4000]))
    return [crash for crash in found if crash.signal_name]


def _take(found: list[Crash], line: str) -> None:
    if match := _LIBC.search(line):
        number, name, _, code, address, tid, thread, pid, process = match.groups()
        _put(found, Crash(int(number), name, code, address, _int(pid), int(tid), thread, process))
    elif match := _HEAD.search(line):
        pid, tid, thread, process = match.groups()
        last = found[-1] if found else None
        if last is not None and last.pid in (int(pid), None) and not last.backtrace:
            found[-1] = replace(last, pid=int(pid), tid=int(tid), thread=thread, process=process)
        else:
            _put(found, Crash(0, "", pid=int(pid), tid=int(tid), thread=thread, process=process))
    elif not found:
        return
    elif match := _SIGNAL.search(line):
        number, name, _, code, address = match.groups()
        last = found[-1]
        found[-1] = replace(
            last,
            signal=int(number),
            signal_name=name,
            code_name=code or last.code_name,
            fault_addr=address or last.fault_addr,
        )
    elif match := _ABORT.match(line):
        found[-1] = replace(found[-1], abort_message=match[1])
    elif (match := _FRAME.match(line)) and len(found[-1].backtrace) <= int(match[1]) < MAX_FRAMES:
        # Only the first thread's frames: their numbers grow.
        found[-1] = replace(found[-1], backtrace=(*found[-1].backtrace, line.strip()))


def _put(found: list[Crash], crash: Crash) -> None:
    if len(found) < MAX_CRASHES:
        found.append(crash)


def low_memory_kills(text: str) -> list[LowMemoryKill]:
    """Every process that the low-memory killer ended, by user space or kernel, in order."""
    found: list[LowMemoryKill] = []
    for line in text.replace("\\x0a", " ").splitlines()[:MAX_LINES]:
        match = _LMKD.search(line[:4000])
        if match is None or len(found) >= 1000:
            continue
        process, pid, _, reason = match.groups()
        freed = _FREED.search(line)
        found.append(LowMemoryKill(process, int(pid), int(freed[1]) if freed else None, reason, line.strip()[:1000]))
    return found


def about(lines: Iterable[str], pid: int) -> list[str]:
    """The lines of a log that speak of process `pid`: by its number in a bracket, in `pid: N` or as the writer."""
    word = re.compile(rf"(?<!\w){pid}(?!\w)")
    return [line for line in lines if word.search(line)]


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)
