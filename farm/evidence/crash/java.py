"""How a Java process died: the runtime's FATAL EXCEPTION block, drop box entries, `am_crash`, a bare stack trace.

Sources of the format: AOSP `RuntimeInit.LoggingHandler`, `ActivityManagerService.addErrorToDropBox`, EventLogTags
`am_crash (User|1|5),(PID|1|5),(Process Name|3),(Flags|1|5),(Exception|3),(Message|3),(File|3),(Line|1|5)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from farm.evidence.crash import classes
from farm.evidence.lines import Line

MAX_CRASHES = 200
MAX_FRAMES = 100
MAX_TEXT = 2_000

_FATAL = re.compile(r"(?:\*{3} )?FATAL EXCEPTION(?P<system> IN SYSTEM PROCESS)?: (?P<thread>.{0,100})")
_PROCESS = re.compile(r"^\s*Process: ([^\s,]{1,200})(?:, PID: (\d{1,10}))?")
_PID = re.compile(r"^\s*PID: (\d{1,10})\s*$")
_EXCEPTION = re.compile(
    r"^\s*(?:Exception in thread \"(?P<thread>[^\"]{1,100})\" )?(?P<cause>Caused by: )?"
    r"(?P<name>(?:[a-zA-Z_][\w$]*\.){1,12}[A-Z][\w$]*(?:Exception|Error|Throwable|Failure|Timeout"
    r"|Interrupt\w*|Death)[\w$]*)(?P<message>:.*)?\s*$"
)
_FRAME = re.compile(r"^\s*at ((?:[\w$<>\-/]+\.)+[\w$<>\-]+) ?\((.{0,200})\)")
_EVENT = re.compile(
    r"^\[(?:\d{1,6},)?(\d{1,10}),\d{1,6},([^,]{1,200}),-?\d{1,12},([\w.$]{1,200}),(.*)\]?$"
    r"|^\[(\d{1,10}),([^,]{1,200}),-?\d{1,12},([\w.$]+),(.*)\]?$"
)
_ENTRY = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ (\w+) \((?:compressed )?text")


@dataclass(slots=True)
class JavaCrash:
    """One. `exceptions`: outermost first, each with its message; the last is the root. None: not said."""

    process: str | None = None
    pid: int | None = None
    thread: str | None = None
    system: bool = False
    fatal: bool = False
    exceptions: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)

    @property
    def klass(self) -> str:
        for exception in [*self.exceptions[:1], *reversed(self.exceptions[1:])]:
            found = classes.of_java(exception, self.process, self.system)
            if found != "java_crash":
                return found
        return "system_server_crash" if self.system else "java_crash"

    def core(self) -> dict[str, Any]:
        found = {
            "class": self.klass,
            "pid": self.pid,
            "thread": self.thread,
            "process": self.process,
            "exception": self.exceptions[0].split(":")[0].strip() if self.exceptions else None,
            "message": self.exceptions[0].partition(":")[2].strip() or None if self.exceptions else None,
            "root_cause": self.exceptions[-1] if self.exceptions else None,
            "backtrace": self.frames[:32] or None,
        }
        return {key: value for key, value in found.items() if value is not None}


class JavaCrashes:
    """Takes lines; several writers' blocks may be interleaved, told apart by their process number."""

    def __init__(self) -> None:
        self._found: list[JavaCrash] = []
        self._open: dict[int | None, JavaCrash] = {}
        self._entry: JavaCrash | None = None
        self._last: JavaCrash | None = None

    @property
    def found(self) -> list[JavaCrash]:
        return [crash for crash in self._found if crash.exceptions or crash.fatal]

    def feed(self, line: Line) -> bool:
        """Whether the line belongs to such a block."""
        text = line.text
        if "FATAL EXCEPTION" in text and (match := _FATAL.search(text)):
            self._begin(
                line, JavaCrash(None, line.pid, match["thread"].strip() or None, bool(match["system"]), fatal=True)
            )
            return True
        if line.tag in ("am_crash",) and (event := _EVENT.match(text)):
            self._event(event)
            return True
        if line.tag and line.tag not in ("AndroidRuntime", "DEBUG", "System.err"):
            return False
        if line.bare and (entry := _ENTRY.match(text)):
            self._entry = JavaCrash() if "crash" in entry[1] and "native" not in entry[1] else None
            self._open.pop(None, None)
            self._last = self._entry
            return False
        return self._part(line, text)

    def _begin(self, line: Line, crash: JavaCrash) -> None:
        if len(self._found) < MAX_CRASHES:
            self._found.append(crash)
        self._open[line.pid] = crash
        if len(self._open) > MAX_CRASHES:
            self._open.pop(next(iter(self._open)))
        self._last = crash

    def _current(self, line: Line) -> JavaCrash | None:
        return self._open.get(line.pid) if line.pid is not None else self._last

    def _part(self, line: Line, text: str) -> bool:
        crash = self._current(line)
        if text.lstrip().startswith(("Process:", "PID:")):
            return self._who(crash or self._entry, text)
        if match := _EXCEPTION.match(text):
            return self._exception(line, match, crash)
        if crash is not None and "at " in text and (frame := _FRAME.match(text)):
            if len(crash.frames) < MAX_FRAMES:
                crash.frames.append(f"{frame[1]}({frame[2]})")
            return True
        return False

    def _who(self, crash: JavaCrash | None, text: str) -> bool:
        if crash is None:
            return False
        if match := _PROCESS.match(text):
            crash.process = match[1]
            if match[2]:
                crash.pid = int(match[2])
            return True
        if match := _PID.match(text):
            crash.pid = int(match[1])
            return True
        return False

    def _exception(self, line: Line, match: re.Match[str], crash: JavaCrash | None) -> bool:
        words = (match["name"] + (match["message"] or "")).strip()[:MAX_TEXT]
        if match["cause"]:
            if crash is None:
                return False
            if len(crash.exceptions) < 32:
                crash.exceptions.append(words)
            return True
        if crash is not None and not crash.exceptions:
            crash.exceptions.append(words)
            if crash not in self._found and len(self._found) < MAX_CRASHES:
                self._found.append(crash)
            return True
        if line.bare and (crash is None or not crash.fatal or crash.frames):
            self._begin(line, JavaCrash(exceptions=[words], thread=match["thread"]))
            return True
        return False

    def _event(self, match: re.Match[str]) -> None:
        pid, process, name, rest = match.groups()[:4] if match[1] else match.groups()[4:]
        if any(crash.pid == int(pid) for crash in self._found) or len(self._found) >= MAX_CRASHES:
            return
        message = rest.rsplit(",", 2)[0]
        self._found.append(JavaCrash(process, int(pid), fatal=True, exceptions=[f"{name}: {message}"[:MAX_TEXT]]))
