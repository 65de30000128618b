"""What a parser of engine output collects, and the rules by which most of them find their figures.

A rule is a pattern with a group `v` (the figure) and, where the line names it, a group `unit`. Other named groups
become labels. `{N}`, `{TIME}`, `{RATE}` and `{SIZE}` in a pattern stand for a figure and for the spellings of a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol

from farm.evidence.engines.documents import Documents
from farm.evidence.engines.failures import Failure, classify
from farm.evidence.engines.report import MAX_NOTES, MAX_READINGS, Reading, Report, Status, measured
from farm.evidence.engines.text import CUT, MAX_SEARCHED, clean, number

MAX_FACTS = 64
MAX_SCOPE = 24

_N = r"(?P<{v}>[-+]?(?:\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?|[Ii]nf(?:inity)?\b|[Nn]a[Nn]\b))(?![.,]?\d|[eE][-+])"
N = _N.format(v="v")
TIME = r"(?P<unit>ms|us|µs|μs|ns|milliseconds|microseconds|seconds|secs?|s)(?![\w/])"
RATE = r"(?P<unit>tok(?:en)?s?(?:\(s\))?\s*(?:/|per)\s*s(?:ec(?:ond)?)?|t/s)(?![a-z])"
SIZE = r"(?P<unit>[KkMG]i?B|bytes|B)(?![A-Za-z/])"
_UNITS = {
    "seconds": "s",
    "sec": "s",
    "secs": "s",
    "秒": "s",
    "milliseconds": "ms",
    "毫秒": "ms",
    "microseconds": "us",
    "µs": "us",
    "μs": "us",
    "bytes": "B",
    "byte": "B",
    "KB": "kB",
    "inf/sec": "1/s",
}
_HEADING = re.compile(r"^(?:[=#*-]{2,}\s*([^=#*\s|][^=#|]{0,80}?)\s*[=#*-]{2,}|([A-Za-z][^|=\[\]{}:,]{0,60}):)\s*$")


class Kind(Enum):
    """What a figure is good for."""

    MAIN = "main"  # what the run was made for: without one it measured nothing
    SETUP = "setup"  # load times and memory: measured, but no answer yet
    DETAIL = "detail"  # counts, settings, sizes, spreads


@dataclass(slots=True)
class Findings:
    """Bounded. Whatever is no positive, finite number is noted as not measured and kept out."""

    readings: list[Reading] = field(default_factory=list)
    details: list[Reading] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    failure: Failure | None = None
    failed_hard: bool = False
    unsupported: bool = False
    invalid: bool = False
    began: bool = False  # something of this tool's output was seen that promises figures
    torn: bool = False  # it stops in the middle
    mains: int = 0
    setups: int = 0
    unmeasured: int = 0  # main figures that were printed without being one

    def add(
        self,
        name: str,
        value: object,
        unit: str = "1",
        kind: Kind = Kind.DETAIL,
        better: str = "neither",
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """Keep one figure; False when it is none."""
        figure = measured(number(value) if isinstance(value, str) else value)
        unit = re.sub(r"\s+", " ", unit)
        if kind is Kind.MAIN:
            self.began = True
        if figure is None:
            self.unmeasured += kind is Kind.MAIN
            if kind is not Kind.DETAIL:
                self.note(f"{name}: printed {str(value)[:40]} {unit}: not measured")
            return False
        shown = dict(list((labels or {}).items())[:MAX_SCOPE])
        self.mains += kind is Kind.MAIN
        self.setups += kind is Kind.SETUP
        doubtful = shown.get("plausible") == "false"
        kept = self.details if kind is Kind.DETAIL or doubtful else self.readings
        if len(kept) < MAX_READINGS:
            kept.append(Reading(name[:100], unit[:40], better, (figure,), shown))
        elif len(kept) == MAX_READINGS:
            self.note(f"more than {MAX_READINGS} figures: the rest is left out")
        return True

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES and (shown := text.strip()[:500]) not in self.notes:
            self.notes.append(shown)

    def fact(self, key: str, value: str) -> None:
        """Something that is no figure; the first word stands, later different ones are noted too."""
        value = value.strip()[:200]
        if value and len(self.facts) < MAX_FACTS:
            self.facts.setdefault(key, value)
            if self.facts[key] != value:
                self.note(f"{key}: {value}")

    def fail(self, failure: Failure) -> None:
        """The first cause in the output wins; a later one is its consequence."""
        self.failure = self.failure or failure
        self.failed_hard = self.failed_hard or failure.hard
        self.note(f"failure: {failure.kind}: {failure.line}")

    def status(self) -> Status:
        if self.unsupported:
            return Status.UNSUPPORTED
        if self.failure is not None and self.failure.kind == "timeout":
            return Status.TIMEOUT
        if self.failed_hard or (self.failure is not None and not self.mains):
            return Status.FAILED
        if self.invalid:
            return Status.INVALID
        if self.mains:
            return Status.INCOMPLETE if self.torn else Status.OK
        if self.unmeasured:
            return Status.NO_METRICS
        return Status.INCOMPLETE if self.began or self.setups or self.torn else Status.NO_METRICS

    def report(self, status: Status | None = None) -> Report:
        facts = [f"{key}: {value}" for key, value in self.facts.items()]
        notes = tuple((facts + self.notes)[:MAX_NOTES])
        return Report(status or self.status(), tuple(self.readings), notes, tuple(self.details))


@dataclass(frozen=True, slots=True)
class Rule:
    """One figure of a line."""

    name: str
    pattern: re.Pattern[str]
    unit: str
    kind: Kind
    better: str


def rule(name: str, pattern: str, unit: str = "1", kind: Kind = Kind.MAIN, better: str | None = None) -> Rule:
    """A rule from its short form. `better` is what the unit says, unless it is given."""
    for word, meaning in (("{N}", N), ("{TIME}", TIME), ("{RATE}", RATE), ("{SIZE}", SIZE)):
        pattern = pattern.replace(word, meaning)
    if better is None:
        timed = (
            unit in ("ms", "s", "us", "ns") or TIME in pattern or SIZE in pattern or unit in ("MB", "MiB", "GB", "B")
        )
        rated = RATE in pattern or unit in ("tok/s", "1/s")
        better = "higher" if rated else "lower" if timed else "neither"
    return Rule(name, re.compile(pattern, re.IGNORECASE), unit, kind, "neither" if kind is Kind.DETAIL else better)


def detail(name: str, pattern: str, unit: str = "1") -> Rule:
    return rule(name, pattern, unit, Kind.DETAIL)


def setup(name: str, pattern: str, unit: str = "1") -> Rule:
    return rule(name, pattern, unit, Kind.SETUP)


def unit_of(spelling: str) -> str:
    """One spelling for each unit."""
    if re.fullmatch(RATE, spelling, re.IGNORECASE):
        return "tok/s"
    return _UNITS.get(spelling, _UNITS.get(spelling.lower(), spelling))


class Parser(Protocol):
    """What the registry knows of a parser."""

    def feed(self, line: str, cut: bool = False) -> None: ...

    def report(self) -> Report: ...


class RuleParser:
    """Rules over cleaned lines. A tool adds what its lines need beside them in `line`, and what it knows in `end`."""

    rules: ClassVar[Iterable[Rule]] = ()
    #: Facts that are no figures: name → pattern with one group.
    words: ClassVar[Mapping[str, re.Pattern[str]]] = {}
    #: Whether this tool's output says something by the shape `=== title ===` or `title:`.
    headings: ClassVar[bool] = True
    #: Patterns of lines that are no failures here, however they sound.
    harmless: ClassVar[re.Pattern[str] | None] = None

    #: Whether JSON documents in the output are its figures.
    documents: ClassVar[bool] = False

    def __init__(self) -> None:
        self.found = Findings()
        self.scope: dict[str, str] = {}
        self._documents = Documents()

    def feed(self, line: str, cut: bool = False) -> None:
        whole_line = clean(line, cut)
        text = whole_line[:MAX_SEARCHED]
        if not text.strip():
            return
        if self.documents:
            value = self._documents.feed(whole_line)
            if value is not None:
                self.document(value)
            if self._documents.took:
                return
        heading = _HEADING.match(text) if self.headings else None
        if heading is not None:
            self.heading((heading[1] or heading[2]).strip())
        if self.harmless is None or not self.harmless.search(text):
            failure = classify(text)
            if failure is not None:
                self.found.fail(failure)
        for name, pattern in self.words.items():
            if match := pattern.search(text):
                self.found.fact(name, match[1])
        if any(mark.isdigit() for mark in text) or "inf" in text.lower() or "nan" in text.lower():
            self.figures(text)
        self.line(text)
        if CUT in text and cut:
            self.cut(text)

    def figures(self, text: str) -> None:
        for each in self.rules:
            for match in each.pattern.finditer(text):
                groups = match.groupdict()
                if stat := groups.get("stat"):
                    groups["stat"] = {"average": "avg"}.get(stat.lower(), stat.lower())
                unit = unit_of(groups.pop("unit", None) or each.unit)
                value = groups.pop("v")
                labels = {key: word.strip()[:200] for key, word in groups.items() if word and word.strip()}
                self.add(each.name, value, unit, each.kind, each.better, labels)

    def add(
        self,
        name: str,
        value: object,
        unit: str = "1",
        kind: Kind = Kind.DETAIL,
        better: str = "neither",
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """Keep one figure under the labels that are in force."""
        return self.found.add(name, value, unit, kind, better, {**self.scope, **(labels or {})})

    def heading(self, title: str) -> None:
        self.scope["section"] = title[:80]

    def line(self, text: str) -> None:
        """What a tool does with a line beside its rules."""

    def cut(self, text: str) -> None:
        """The output stops inside a figure of this line."""
        self.found.torn = True

    def document(self, value: Any) -> None:
        """A JSON document in the output, or what is complete of it."""

    def end(self) -> None:
        """What a tool concludes when all was read."""

    def report(self) -> Report:
        rest = self._documents.rest()
        if rest is not None:
            self.document(rest)
        self.found.torn = self.found.torn or self._documents.torn
        self.end()
        return self.found.report()
