"""What is in a text of which nobody said what it is: an output, a log with many things in it, a whole bugreport.

A snapshot (the output of one command) is recognised by lines that only it prints; the kind with most of them wins.
What happened in a log is found anywhere in it (`farm.evidence.log`). A bugreport is cut at its section heads, and each
section goes to the kind that its head names: the stacks of "VM TRACES JUST NOW" are of healthy processes and no ANR.
What an engine printed is told by lines that only that tool prints (`farm.evidence.engines.outputs`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from farm.evidence.engines.outputs import Outputs
from farm.evidence.lines import Facts, Parser, clean
from farm.evidence.log import BEFORE, PIECE, Log
from farm.evidence.registry import KINDS, Kind

#: Lines in which an output shows what it is; a longer text is a log.
_SNAPSHOT_LINES = 50_000
MAX_SECTIONS = 2_000
MAX_JOINED = 500

_SNAPSHOTS = tuple(kind for kind in KINDS.values() if not kind.log)

_SECTION = re.compile(r"^------ (.{1,120}?)(?: \((.{1,300})\))? ------\s*$")
_SERVICE = re.compile(r"^DUMP OF SERVICE (?:CRITICAL |HIGH )?([\w.\-/]{1,120}):")
_BUGREPORT = re.compile(r"^== dumpstate: |^Bugreport format version: ")
_LOGCAT = re.compile(r"^-{3,} beginning of |^(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\s+\d+")
#: Section of a bugreport → the snapshot in it; None: a log, in which anything may be found.
_SECTIONS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), kinds)
    for pattern, kinds in (
        (r"^SYSTEM PROPERTIES", ("getprop",)),
        (r"^MEMORY INFO", ("memory",)),
        (r"^PROCRANK", ("memory",)),
        (r"^CPU INFO|^PROCESSES|^PS ", ("dumpsys_misc",)),
        (r"^(?:SYSTEM|EVENT|CRASH|RADIO|MAIN|LAST|KERNEL) LOG|^LOGCAT|^LAST KMSG|^LAST LOGCAT|^LAST RADIO", ("log",)),
        (r"^VM TRACES AT LAST ANR|LAST ANR|^ANR (?:FILES|TRACES)", ("anr",)),
        (r"^VM TRACES|^JUST NOW", ()),
        (r"^TOMBSTONE|^DROPBOX", ("log",)),
    )
)
_SERVICES = {
    "battery": ("dumpsys_battery",),
    "thermalservice": ("thermalservice",),
    "cpuinfo": ("dumpsys_misc",),
    "gfxinfo": ("dumpsys_misc",),
    "meminfo": ("memory",),
    "dropbox": ("log",),
    "input": ("anr",),
    "activity": ("anr", "crash"),
}


class _Snapshots:
    """Every kind of output that shows itself; each is read from a little before its first sign on."""

    def __init__(self, kinds: Iterable[Kind] = _SNAPSHOTS) -> None:
        self._kinds = tuple(kinds)
        self._before: deque[str] = deque(maxlen=BEFORE)
        self._parsers: dict[str, Parser] = {}
        self.weights: dict[str, int] = {}

    def feed(self, line: str) -> None:
        for kind in self._kinds:
            if kind.sign.search(line):
                self.weights[kind.name] = self.weights.get(kind.name, 0) + kind.weight
                if kind.name not in self._parsers:
                    self._parsers[kind.name] = kind.parser()
                    for earlier in self._before:
                        self._parsers[kind.name].feed(earlier)
        for parser in self._parsers.values():
            parser.feed(line)
        self._before.append(line)

    def finish(self) -> dict[str, Facts]:
        order = sorted(self._parsers, key=lambda name: -self.weights[name])
        return {name: self._parsers[name].finish() for name in order}


class Auto:
    """Feed it lines of whatever it is. `finish`: `kind`, its facts beside it, and `also`: what else there is."""

    def __init__(self) -> None:
        self._log = Log()
        self._snapshots = _Snapshots()
        self._outputs = Outputs()
        self._found: dict[str, Facts] = {}
        self._section: dict[str, Parser] | None = None
        self._in_log = False
        self._batch: list[str] = []
        self._batched = 0
        self._bugreport = False
        self._dated = 0
        self._lines = 0
        self._sections = 0

    def feed(self, raw: str) -> None:
        line = clean(raw)
        self._lines += 1
        if self._edge(line):
            return
        if self._bugreport:
            self._inside(line)
            return
        self._dated += bool(_LOGCAT.match(line))
        self._outputs.feed(raw)
        self._keep_for_log(line)
        if self._dated * 2 < self._lines < _SNAPSHOT_LINES:  # the lines of a log are no command's output
            self._snapshots.feed(line)

    def _keep_for_log(self, line: str) -> None:
        self._batch.append(line)
        self._batched += len(line) + 1
        if self._batched >= PIECE:
            self._flush()

    def _flush(self) -> None:
        """Many lines at once: most pieces of a log hold nothing of interest."""
        if self._batch:
            self._log.feed_text("\n".join([*self._batch, ""]))
        self._batch, self._batched = [], 0

    def feed_file(self, name: str, lines: Iterable[str]) -> None:
        """One file of a bugreport's archive. Traces and tombstones lie beside the report."""
        self._bugreport = True
        self._close()
        if re.search(r"(?:^|/)(?:anr|traces)[^/]*(?:/|$)|anr_\d", name):
            parser: Parser = KINDS["anr"].parser()
            for line in lines:
                parser.feed(line)
            self._keep("anr", parser.finish())
        elif re.search(r"tombstone", name):
            parser = KINDS["crash"].parser()
            for line in lines:
                parser.feed(line)
            self._keep("crash", parser.finish())
        else:
            for line in lines:
                self.feed(line)

    def _edge(self, line: str) -> bool:
        if not line.startswith(("------ ", "DUMP OF SERVICE ", "== dumpstate", "Bugreport format")):
            return False
        if _BUGREPORT.match(line):
            self._bugreport = True
            return True
        service = _SERVICE.match(line)
        section = None if service else _SECTION.match(line)
        if not (service or section) or self._sections >= MAX_SECTIONS:
            return False
        self._bugreport = True
        self._sections += 1
        self._close()
        if service:
            self._open(_SERVICES.get(service[1], ()))
        elif section:
            self._open(next((kinds for pattern, kinds in _SECTIONS if pattern.search(section[1])), ()))
        return True

    def _open(self, names: tuple[str, ...]) -> None:
        self._section = {name: KINDS[name].parser() for name in names if name != "log"}
        self._in_log = "log" in names

    def _inside(self, line: str) -> None:
        if self._section is None or self._in_log:
            self._keep_for_log(line)
        for parser in (self._section or {}).values():
            parser.feed(line)

    def _close(self) -> None:
        for name, parser in (self._section or {}).items():
            self._keep(name, parser.finish())
        self._section, self._in_log = None, False

    def _keep(self, name: str, facts: Facts) -> None:
        """Of two sections of one kind the one that knows more; ANRs and incidents of both."""
        known = self._found.get(name)
        if not _tells(name, facts):
            return
        if known is None:
            self._found[name] = facts
        elif name in ("anr", "crash"):
            _join(known, facts, "anrs" if name == "anr" else "incidents")
        elif _size(facts) > _size(known):
            self._found[name] = facts

    def finish(self) -> Facts:
        self._close()
        self._flush()
        logs = self._log.finish()
        for name, facts in logs.items():
            self._keep(name, facts)
        if self._bugreport:
            return self._answer("bugreport", list(self._found))
        is_log = self._dated * 2 >= self._lines
        shots = {} if is_log else self._snapshots.finish()
        weights = {
            **{name: self._log.weight(name) for name in logs},
            **{name: self._snapshots.weights[name] for name in shots},
        }
        for name, facts in shots.items():
            if _tells(name, facts):
                self._found.setdefault(name, facts)
        if self._found.get("anr", {}).get("anrs"):
            self._found.pop("dumpsys_misc", None)  # the CPU table is the ANR's own
        if not self._found:  # recognised, and nothing in it
            self._found = dict([max({**logs, **shots}.items(), key=lambda entry: weights[entry[0]])]) if weights else {}
        order = sorted(self._found, key=lambda name: -weights.get(name, 0))
        order = self._with_output(order)
        return self._answer("logcat" if is_log and self._dated >= 3 else None, order)

    def _with_output(self, order: list[str]) -> list[str]:
        """An engine's figures come before what else a text tells, save how something died; a bare failure, last."""
        output = self._outputs.finish()
        if output is None:
            return order
        name, report = f"engine:{output[0]}", output[1]
        if report.readings or report.details:
            deaths = [kind for kind in order if kind in ("crash", "anr")]
            order = [*deaths, name, *(kind for kind in order if kind not in deaths)]
        elif not any(_tells(kind, self._found[kind]) for kind in order):
            order = [name, *order]
        else:
            return order
        self._found[name] = report.to_json()
        return order

    def _answer(self, container: str | None, order: list[str]) -> Facts:
        if container == "bugreport":
            order = sorted(order, key=lambda name: ("crash", "anr").index(name) if name in ("crash", "anr") else 2)
        answer: Facts = {"container": container, "kind": order[0] if order else None, "lines": self._lines}
        if order:
            answer.update(self._found[order[0]])
            answer["kind"], answer["container"] = order[0], container
        answer["also"] = {name: self._found[name] for name in order[1:]}
        return answer


def _tells(name: str, facts: Facts) -> bool:
    if name == "anr":
        return bool(facts.get("anrs") or facts.get("reasons") or facts.get("threads"))
    if name == "crash":
        return bool(facts.get("incidents"))
    if name == "model_load":
        return facts.get("ok") is not None
    if name == "adb_errors":
        return facts.get("class") != "unknown"
    return any(value not in (None, False, [], {}) for key, value in facts.items() if key != "unknown")


def _size(facts: Facts) -> int:
    return sum(value is not None for value in facts.values())


def _join(known: Facts, more: Facts, key: str) -> None:
    """The second list's entries that the first has not; what the first does not know, the second may."""
    have = {_identity(entry) for entry in _entries(known, key)}
    added = [entry for entry in _entries(more, key) if _identity(entry) not in have]
    known[key] = [*_entries(known, key), *added][:MAX_JOINED]
    for name, value in more.items():
        if known.get(name) in (None, "unknown"):
            known[name] = value
    if "count" in known:
        known["count"] = len(known[key])


def _entries(facts: Facts, key: str) -> Iterator[Facts]:
    yield from facts.get(key) or []


def _identity(entry: Facts) -> tuple[object, ...]:
    return (entry.get("class"), entry.get("pid"), entry.get("process") or entry.get("victim_comm"), entry.get("tid"))
