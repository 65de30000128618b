"""What a parser of engine output collects: figures with units, facts, the first cause of a failure; all bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from farm.evidence.engines.failures import Failure
from farm.evidence.engines.report import MAX_NOTES, MAX_READINGS, Reading, Report, Status, measured
from farm.evidence.engines.text import number

MAX_FACTS = 64
MAX_SCOPE = 24


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
