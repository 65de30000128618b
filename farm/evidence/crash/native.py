"""How a native process died: the tombstone block, and libc's one line before it.

A tombstone begins with a line of stars and is printed by Android's `debuggerd` into `/data/tombstones`, into the crash
log buffer (with a log prefix before every line), and, by engines that handle their own fatal signals, to stderr. Read
here: pid, tid, thread, process, signal, code, fault address, abort message, backtrace of the thread that died. A field
that is not there is None. Source of the format: AOSP system/core/debuggerd (tombstone.cpp, tombstone_proto_to_text.cpp)
and bionic's linker/debuggerd_handler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from farm.evidence.crash import classes
from farm.evidence.lines import Line, split

MAX_LINES = 20_000
MAX_FRAMES = 256
MAX_CRASHES = 50
MAX_MESSAGE = 4_000
_MESSAGE_LINES = 20

_HEAD = re.compile(r"\bpid: (\d{1,10}), tid: (\d{1,10})(?:, name: (.{0,100}?))?\s+>>> (.{0,300}?) <<<")
_CODE = r"(?:,? code=?\(?:? ?(-?\d{1,10})(?: \((\w{1,40})[^)]{0,100}\))?\)?)?"
_SIGNAL = re.compile(rf"^\s*signal (\d{{1,3}}) \((<?[\w ]{{1,30}}>?)\){_CODE}(?:, fault addr:? (\S{{1,40}}))?")
_LIBC = re.compile(
    rf"Fatal signal (\d{{1,3}}) \((\w{{1,20}})\){_CODE}(?: at (0x[0-9a-fA-F]{{1,16}}) \(code=(-?\d{{1,10}})\))?"
    r"(?:, fault addr:? (\S{1,40}))?(?: in tid (\d{1,10})(?: \((.{0,100}?)\))?)?(?:, thread (\d{1,10})"
    r" \((.{0,100}?)\))?"
    r"(?:, pid (\d{1,10})(?: \((.{0,200}?)\))?)?\s*$"
)
_ABORT = re.compile(r"^\s*Abort message: ?'?(.{0,8000})$")
_FRAME = re.compile(r"^\s*#(\d{1,3}) +pc +([0-9a-fA-F]+) +(.{0,1000})$")
_OTHER_THREAD = re.compile(r"^(?:--- ){3,}---|^-{3,} (?:other|threads)")
_CAUSE = re.compile(r"^Cause: (.{1,300})$")
_UPTIME = re.compile(r"^Process uptime: (\d{1,9})s")
_WRITERS = re.compile(r"^(?:DEBUG|libc|crash_dump\d*|debuggerd\d*|.*tombstoned|AndroidRuntime|CRASH|I?DEBUG.*)?$")


@dataclass(frozen=True, slots=True)
class Crash:
    """One native crash. `context`: what the process said just before, where its own words name the cause."""

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
    cause: str | None = None
    uptime_s: int | None = None
    context: str | None = None

    @property
    def klass(self) -> str:
        """What kind of death, by the closed list of the evidence kinds; `native_crash` when none fits better."""
        message = self.abort_message if classes.by_message(self.abort_message) else self.context or self.abort_message
        return classes.of_native(self.signal_name, self.code_name, message, self.process)

    def words(self) -> str:
        """One line: `SIGSEGV (SEGV_MAPERR) at 0x0 in farm-engine, thread farm-engine, in decode+120`."""
        parts = [self.signal_name]
        if self.code_name:
            parts.append(f"({self.code_name})")
        if self.fault_addr:
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
            "signal_name": self.signal_name,
            "code_name": self.code_name,
            "pid": self.pid,
            "tid": self.tid,
            "thread": self.thread,
            "process": self.process,
            "abort_message": self.abort_message,
            "fault_addr": self.fault_addr,
            "cause": self.cause,
            "uptime_s": self.uptime_s,
            "backtrace": list(self.backtrace[:32]) or None,
        }
        return {key: value for key, value in found.items() if value is not None}


class NativeCrashes:
    """Takes lines; a block and libc's line before it are one crash."""

    def __init__(self) -> None:
        self._found: list[Crash] = []
        self._full: set[int] = set()
        self._message: list[str] | None = None
        self._elsewhere = False

    @property
    def found(self) -> list[Crash]:
        return [crash for crash in self._found if crash.signal_name]

    def feed(self, line: Line) -> bool:
        """Whether the line belongs to such a block."""
        if line.kernel or (line.tag and not _WRITERS.match(line.tag)):
            return False
        text = line.text
        if self._message is not None and self._more_message(text):
            return True
        if "Fatal signal" in text and (match := _LIBC.search(text)):
            self._libc(match, line)
        elif ">>> " in text and (match := _HEAD.search(text)):
            self._head(match)
        elif not self._found:
            return False
        else:
            return self._detail(text)
        return True

    def context(self, pid: int | None, text: str) -> None:
        """What process `pid` said last: attached to its crash if that has no message of its own."""
        for index, crash in enumerate(self._found):
            if pid is not None and crash.pid == pid and crash.context is None:
                self._found[index] = replace(crash, context=text[:MAX_MESSAGE])

    def _libc(self, match: re.Match[str], line: Line) -> None:
        number, name, _, code, old_addr, _, addr, tid, thread, old_tid, old_thread, pid, process = match.groups()
        who = int(pid) if pid else line.pid
        crash = Crash(
            int(number),
            name,
            code,
            _address(addr or old_addr),
            who,
            _int(tid or old_tid) or line.tid,
            thread or old_thread,
            process,
        )
        self._elsewhere = False
        if not any(
            c.pid == who and c.tid == crash.tid and c.signal == crash.signal and i in self._full
            for i, c in enumerate(self._found)
        ):
            self._put(crash)

    def _head(self, match: re.Match[str]) -> None:
        pid, tid, thread, process = int(match[1]), int(match[2]), match[3], match[4]
        last = self._found[-1] if self._found else None
        if last is not None and last.pid == pid and len(self._found) - 1 in self._full:
            self._elsewhere = last.tid != tid  # another thread of the same dump
            if self._elsewhere or last.backtrace:
                return
        self._elsewhere = False
        if last is None or last.pid not in (pid, None) or last.backtrace:
            self._put(Crash(0, "", pid=pid, tid=tid, thread=thread, process=process))
        else:
            self._found[-1] = replace(last, pid=pid, tid=tid, thread=thread or last.thread, process=process)
        self._full.add(len(self._found) - 1)

    def _detail(self, text: str) -> bool:
        if _OTHER_THREAD.match(text):
            self._elsewhere = True
            return True
        if self._elsewhere:
            return bool(_FRAME.match(text))
        last = self._found[-1]
        if match := _SIGNAL.match(text):
            self._signal(last, match)
        elif "Abort message" in text and (match := _ABORT.match(text)):
            self._begin_message(match[1])
        elif match := _CAUSE.match(text):
            self._found[-1] = replace(last, cause=last.cause or match[1])
        elif (match := _FRAME.match(text)) is not None:
            if len(last.backtrace) <= int(match[1]) < MAX_FRAMES:  # only the first thread's frames: their numbers grow
                self._found[-1] = replace(last, backtrace=(*last.backtrace, text.strip()))
        else:
            return False
        return True

    def _signal(self, last: Crash, match: re.Match[str]) -> None:
        if last.signal_name and last.backtrace:
            return
        number, name, _, code, address = match.groups()
        self._found[-1] = replace(
            last,
            signal=int(number),
            signal_name=name,
            code_name=code or last.code_name,
            fault_addr=_address(address) or last.fault_addr,
        )

    def _begin_message(self, text: str) -> None:
        if text.rstrip().endswith("'"):
            self._found[-1] = replace(self._found[-1], abort_message=text.rstrip()[:-1][:MAX_MESSAGE])
        else:
            self._message = [text]
            self._found[-1] = replace(self._found[-1], abort_message=text.rstrip()[:MAX_MESSAGE])

    def _more_message(self, text: str) -> bool:
        """A message with line breaks goes on to its closing quote; without one, the first line stands."""
        assert self._message is not None
        over = (
            len(self._message) >= _MESSAGE_LINES
            or _FRAME.match(text)
            or re.match(r"^\s+[rx]\d{1,2} +[0-9a-f]{8}", text)
        )
        if over or text.startswith(("backtrace:", "pid: ", "*** ***")):
            self._message = None
            return False
        self._message.append(text)
        if text.rstrip().endswith("'"):
            whole = "\n".join(self._message).rstrip()[:-1].rstrip()
            self._found[-1] = replace(self._found[-1], abort_message=whole[:MAX_MESSAGE])
            self._message = None
        return True

    def _put(self, crash: Crash) -> None:
        if len(self._found) < MAX_CRASHES:
            self._found.append(crash)
        else:
            self._elsewhere = True


def crashes(text: str) -> list[Crash]:
    """Every native crash in a tombstone, a log or an engine's stderr, in order; a block and its libc line are one."""
    parser = NativeCrashes()
    for raw in text.splitlines()[:MAX_LINES]:
        parser.feed(split(raw))
    return parser.found


def about(lines: Iterable[str], pid: int) -> list[str]:
    """The lines of a log that speak of process `pid`: by its number in a bracket, in `pid: N` or as the writer."""
    word = re.compile(rf"(?<!\w){pid}(?!\w)")
    return [line for line in lines if word.search(line)]


def _address(text: str | None) -> str | None:
    """As printed; dashes say that the signal has none."""
    return None if text is None or not re.search(r"[0-9a-fA-F]", text.rstrip("-")) else text


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)
