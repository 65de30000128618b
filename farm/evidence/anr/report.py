"""From lines to ANRs: every place in which Android writes one down, joined by process.

A block in the log belongs to who logs it: lines of other tags and of other writers between its lines are not its own.
A field line without any prefix continues the block above it. What of the log, the event log, the drop box, the trace
file and the exit records speaks of one process is one ANR, unless one source reports two.
"""

from __future__ import annotations

import re

from farm.evidence.anr import causes, chain, reasons
from farm.evidence.anr.record import MAX_REASON, Anr, thread_facts
from farm.evidence.anr.stacks import Stacks
from farm.evidence.anr.world import World, clock
from farm.evidence.cpu_usage import Table
from farm.evidence.lines import Facts, Line, split

MAX_ANRS = 200
#: ANRs whose stacks are kept.
MAX_TRACED = 10

_HEADER = re.compile(
    r"\bANR in (?!Window\{|input window|gesture monitor|ActivityRecord\{"
    r"|null\b)([^\s(,]{1,200})(?: \((.{1,300}?)\))?(?:,|\s|$)"
)
_INLINE_PID, _INLINE_REASON = re.compile(r"\bPID: (\d{1,10})"), re.compile(r"\bReason: (.{1,2000})")
_OLD_HEADER = re.compile(r"ANR \(application not responding\) in process: (\S{1,200})")
_EVENT = re.compile(r"^\[(?:(\d{1,6}),)?(\d{1,10}),([^,\]]{1,200}),(-?\d{1,12}),(.*?)\]?$")
_WINDOW = re.compile(
    r"^(?:ANR in (?:Window\{\w+ u\d+ |ActivityRecord\{\w+ u\d+ |input window owned by "
    r"|gesture monitor owned by )"
    r"|Input event dispatching timed out )"
)
_PACKAGE = re.compile(r"([a-zA-Z]\w*(?:\.\w+)+)/(\S{1,200}?)[\s})]")
_OWNED = re.compile(r"owned by pid[:=] ?(\d{1,10})")
_FIELD = re.compile(
    r"^\s*(PID|Pid|Process|Package|Flags|Foreground|Subject|Reason|Parent|Activity|ErrorId|Frozen|Load"
    r"|Time|ANR time|Window"
    r"|Cmd line|Cmdline)\s?: ?(.*)$"
)
_PRESSURE_OF = re.compile(r"Output from /proc/pressure/(memory|cpu|io)\b")
_PRESSURE = re.compile(r"^\s*(some|full) avg10=(\d{1,3}(?:\.\d+)?) ")
_TRACE = re.compile(r"^-{4,} (?:Waiting Channels: |dumping )?pid:? (\d{1,10}) at ")
_TRACE_END = re.compile(r"^-{4,} end (\d{1,10}) -{4,}")
_ENTRY = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ (\w{1,60}) \((?:compressed )?(?:text|data)")
_LAST_STATE = re.compile(r"(?:Input Dispatcher State at time of last|WINDOW MANAGER LAST|ACTIVITY MANAGER LAST) ANR")
_EXIT_PID = re.compile(r"\bpid=(\d{1,10}) realUid=")
_EXIT = re.compile(r"\bprocess=(\S{1,200}) reason=6 \(ANR\)")
_DESCRIPTION = re.compile(r"description=(.*?)(?: state=| trace=|$)")
_RECORD = re.compile(r"ProcessRecord\{\w+ (\d{1,10}):([^/\s}]{1,200})")
_REASON = re.compile(
    r"^\s*(?:Input dispatching timed out|keyDispatchingTimedOut|Broadcast of Intent|executing service "
    r"|Context\.startForegroundService\(\)"
    r"|ContentProvider not responding|No response to on\w+Job)"
)
_LOGGERS = re.compile(r"ActivityManager|A[Nn][Rr]Manager|^Anr|^am_anr$|WindowManager|ActivityTaskManager|^$")


class AnrParser:
    """Feed it lines; `finish` gives `anrs`, and `trigger`, `cause`, `load` of the first that has them."""

    def __init__(self) -> None:
        self.anrs: list[Anr] = []
        self._open: dict[int | None, Anr] = {}
        self._last: Anr | None = None
        self._entry: dict[str, str] = {}
        self._entry_anr: Anr | None = None
        self._pressure: str | None = None
        self._tracing: Anr | None = None
        self._peer: int | None = None
        self._world = World()
        self._loose = Stacks()
        self._exit_pid: int | None = None
        self._state_dump = 0
        self._just_opened = False
        self._reasons: list[str] = []

    def feed(self, raw: str) -> None:
        line = split(raw)
        text = line.text
        if not text.strip():
            return
        just_opened, self._just_opened = self._just_opened, False
        if self._world.feed(line) or self._head(line, text, just_opened) or self._trace_edge(text):
            return
        anr = self._block(line)
        if self._field(line, text, anr) or self._figures(text, anr):
            return
        if anr is None and line.bare and len(self._reasons) < MAX_ANRS and _REASON.match(text):
            self._reasons.append(text.strip()[:MAX_REASON])
        if line.bare or line.tag in ("", "DEBUG"):
            stacks = self._tracing.stacks if self._tracing else self._loose
            peer = self._world.peer(self._peer) if self._peer is not None else None
            if peer is not None:
                peer.feed(text)
            elif self._tracing is not None or not self._foreign:
                stacks.feed(text)
            self._exit(text)

    # ---- heads: where an ANR begins

    def _head(self, line: Line, text: str, just_opened: bool) -> bool:
        if line.tag == "am_anr" or "am_anr" in text[:60]:
            body = text.split("am_anr", 1)[-1].lstrip(" :") if line.tag != "am_anr" else text
            return self._event(body, clock(line.time))
        if "ANR" in text or "Input event dispatching" in text:
            if match := _HEADER.search(text):
                if _header_is_real(line, text):
                    self._begin(line, match[1], match[2], just_opened)
                    return True
            elif match := _OLD_HEADER.search(text):
                self._begin(line, match[1], None, just_opened)
                return True
            elif _WINDOW.match(text):
                self._window(text)
                return True
            elif _LAST_STATE.search(text):
                self._state_dump = 40
                return True
        if match := _RECORD.search(text) if "ProcessRecord{" in text and "nr" in text else None:
            self._identify(int(match[1]), match[2])
        return False

    def _begin(self, line: Line, process: str, activity: str | None, just_opened: bool) -> None:
        process = process.rstrip(":.")
        if just_opened and line.bare and self._last is not None and self._last.empty and self._last.sources == {"log"}:
            self._forget(self._last)
        anr = self._claim("log", process=process)
        anr.activity, anr.at = anr.activity or activity, anr.at or clock(line.time)
        for name, pattern in (("PID", _INLINE_PID), ("Reason", _INLINE_REASON)):  # some vendors write all on one line
            if inline := pattern.search(line.text):
                anr.put(name, inline[1])
        self._open[line.pid] = anr
        if len(self._open) > MAX_ANRS:
            self._open.pop(next(iter(self._open)))
        self._entry = {}
        self._entry_anr = None
        self._just_opened = True
        self._state_dump = 0

    def _event(self, text: str, at: str | None) -> bool:
        match = _EVENT.match(text.strip())
        if match is not None:
            anr = self._claim("event", process=match[3], pid=int(match[2]), reason=match[5])
            anr.at = anr.at or at
            anr.reason = anr.reason or match[5][:MAX_REASON]
        return match is not None

    def _window(self, text: str) -> None:
        named, owned = _PACKAGE.search(text + " "), _OWNED.search(text)
        reason = text.partition("eason:")[2].strip()
        if named is None and owned is None:
            return
        anr = self._claim("window", process=named[1] if named else None, pid=int(owned[1]) if owned else None)
        anr.reason = anr.reason or (reason[:MAX_REASON] or None)
        if named and named[2]:
            anr.activity = anr.activity or f"{named[1]}/{named[2]}"

    # ---- which ANR a line belongs to

    def _claim(self, source: str, process: str | None = None, pid: int | None = None, reason: str | None = None) -> Anr:
        """The ANR that this source has not spoken of yet and that fits, or a new one."""
        for anr in reversed(self.anrs):
            same_pid = pid is None or anr.pid is None or anr.pid == pid
            same_name = process is None or anr.process is None or _same_name(anr.process, process)
            known = (pid is not None and anr.pid == pid) or (process is not None and anr.process is not None)
            if source not in anr.sources and same_pid and same_name and known:
                break
        else:
            anr = Anr()
            if len(self.anrs) < MAX_ANRS:
                self.anrs.append(anr)
        anr.sources.add(source)
        anr.process = process if anr.process is None or source == "log" else anr.process
        anr.pid = anr.pid if anr.pid is not None else pid
        self._last = anr
        return anr

    def _forget(self, anr: Anr) -> None:
        self.anrs = [other for other in self.anrs if other is not anr]
        self._open = {key: other for key, other in self._open.items() if other is not anr}

    def _identify(self, pid: int, process: str) -> None:
        for anr in self.anrs:
            if anr.pid is None and anr.process == process:
                anr.pid = pid

    def _block(self, line: Line) -> Anr | None:
        if line.tag is not None and line.tag and not _LOGGERS.search(line.tag):
            return None
        if line.kernel:
            return None
        return self._open.get(line.pid) if line.pid is not None else (self._last or self._entry_anr)

    # ---- fields

    def _field(self, line: Line, text: str, anr: Anr | None) -> bool:
        match = _FIELD.match(text)
        if match is None or (line.tag and not _LOGGERS.search(line.tag)):
            if line.bare and (entry := _ENTRY.match(text)):
                self._entry, self._entry_anr, self._last, self._tracing = {"tag": entry[1]}, None, None, None
            return False
        name, value = match[1], match[2].strip()
        if self._state_dump > 0 and name in ("Reason", "Time", "ANR time", "Window"):
            self._state(name, value)
            return True
        if line.bare and name in ("Process", "Subject", "Package", "Foreground", "Activity", "Flags"):
            self._entry_field(name, value)
            return True
        if line.bare and name in ("Cmd line", "Cmdline"):
            self._command(value)
            return True
        if line.bare and name in ("PID", "Pid") and self._entry:
            self._entry["PID"] = value
        elif anr is not None:
            anr.put(name, value)
        return True

    def _entry_field(self, name: str, value: str) -> None:
        """A drop box entry or the head of a trace file: an ANR only once it says why."""
        if name == "Process":
            if ", PID:" in value or not value:
                return
            self._entry = {"tag": self._entry.get("tag", "")}
            self._entry_anr, self._last, self._tracing = None, None, None
        self._entry[name] = value
        if name == "Subject" and (reasons.trigger(value) != "unknown" or self._entry.get("tag", "").endswith("_anr")):
            pid = self._entry.get("PID", "")
            process = self._entry.get("Process")
            anr = self._claim("entry", process=process, pid=int(pid) if pid.isdigit() else None)
            anr.reason = anr.reason or value[:MAX_REASON]
            anr.activity = anr.activity or self._entry.get("Activity")
            if "Foreground" in self._entry:
                anr.extras["foreground"] = self._entry["Foreground"].lower() == "yes"
            self._entry_anr = anr

    def _command(self, value: str) -> None:
        if self._peer is not None and value:
            self._world.names.setdefault(self._peer, value[:200])
        if self._tracing is not None and self._tracing.process is None and value:
            self._tracing.process = value[:200]

    def _state(self, name: str, value: str) -> None:
        self._state_dump -= 1
        if name != "Reason" or not value:
            return
        named = reasons.component(value)
        anr = self._claim("state", process=named[0] if named else None)
        anr.reason = anr.reason or value[:MAX_REASON]
        if reasons.trigger(value) == "unknown":
            anr.reason = f"Input dispatching timed out ({value[:MAX_REASON]})"

    # ---- figures, stacks, exit records

    def _figures(self, text: str, anr: Anr | None) -> bool:
        if match := _PRESSURE_OF.search(text):
            self._pressure = None if "End" in text else match[1]
            return True
        target = anr or self._entry_anr
        if target is None:
            return False
        if self._pressure and (match := _PRESSURE.match(text)):
            target.pressure[f"{self._pressure}_{match[1]}_avg10_pct"] = float(match[2])
            return True
        return target.cpu.feed(text)

    @property
    def _foreign(self) -> bool:
        """Stacks of a process that no ANR here is about."""
        return self._tracing is None and any(anr.traced for anr in self.anrs)

    def _trace_edge(self, text: str) -> bool:
        if not text.startswith("----"):
            return False
        if match := _TRACE.match(text):
            self._trace(int(match[1]))
            return True
        if _TRACE_END.match(text):
            self._tracing = self._peer = None
            return True
        return False

    def _trace(self, pid: int) -> None:
        known = next((anr for anr in reversed(self.anrs) if anr.pid == pid), None)
        if known is None and self._entry_anr is not None and self._entry_anr.pid is None:
            known = self._entry_anr
        if known is None and not any(anr.traced for anr in self.anrs):
            known = next((anr for anr in reversed(self.anrs) if anr.pid is None and "log" not in anr.sources), None)
            known = known or (None if self.anrs else self._claim("trace", pid=pid))
        if sum(anr.traced for anr in self.anrs) >= MAX_TRACED and not (known and known.traced):
            known = None
        if known is not None:
            known.pid = pid
            known.traced = True
            known.sources.add("trace")
        self._tracing = known
        self._peer = pid if known is None else None

    def _exit(self, text: str) -> None:
        if match := _EXIT_PID.search(text):
            self._exit_pid = int(match[1])
        if match := _EXIT.search(text):
            self._claim("exit", process=match[1], pid=self._exit_pid)
        elif (
            "description=" in text
            and self._last is not None
            and "exit" in self._last.sources
            and self._last.reason is None
        ):
            described = _DESCRIPTION.search(text)
            self._last.reason = described[1].strip()[:MAX_REASON] if described else None

    def finish(self) -> Facts:
        anrs = [anr for anr in self.anrs if not (anr.empty and anr.process is None)]
        for anr in anrs:
            if anr.process is None and (named := reasons.component(anr.reason)):
                anr.process = named[0]
        if self._loose.threads and (len(anrs) == 1) and not anrs[0].stacks.threads:
            anrs[0].stacks = self._loose
        found = [anr.facts(self._world) for anr in anrs]
        facts: Facts = {"anrs": found, "trigger": _first(found, "trigger"), "load": _first(found, "load")}
        if found:
            facts["cause"], facts["cause_basis"] = _first(found, "cause"), _first(found, "cause_basis")
        else:
            cause, basis = causes.of(self._loose, None, None, Table(), {})
            facts["cause"], facts["cause_basis"] = cause, basis or None
            if self._loose.threads:
                facts["threads"] = len(self._loose.threads)
                main = self._loose.main(None)
                if main is not None:
                    facts |= thread_facts(main, chain.follow(self._loose, main, None, None, self._world, None))
            if self._reasons:
                facts["reasons"] = [{"reason": text, "trigger": reasons.trigger(text)} for text in self._reasons]
                facts["trigger"] = facts["reasons"][0]["trigger"]
        return facts


def _header_is_real(line: Line, text: str) -> bool:
    """A report begins its line; only a copy that lost its columns has words of the log before it."""
    before = text.partition("ANR in ")[0].strip()
    if before == "":
        return (
            line.tag is None
            or line.tag == ""
            or line.level in ("E", "I", "W", "F", "A", None)
            or bool(_LOGGERS.search(line.tag))
        )
    return bool(re.search(r"(?:ActivityManager|A[Nn][Rr]Manager)\W*$", before))


def _same_name(one: str, other: str) -> bool:
    return one == other or one.split(":")[0] == other.split(":")[0]


def _first(found: list[Facts], key: str) -> object:
    values = [facts[key] for facts in found]
    return next((value for value in values if value not in (None, "unknown")), values[0] if values else None)
