"""The base of the parsers: cleaned lines through rules, words, failures, headings and JSON documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from farm.evidence.engines.documents import Documents
from farm.evidence.engines.failures import classify, suspicious
from farm.evidence.engines.findings import Findings, Kind
from farm.evidence.engines.report import Report
from farm.evidence.engines.rules import Rule, literal, unit_of
from farm.evidence.engines.text import CUT, MAX_SEARCHED, clean

_FIGURES = re.compile(r"\d|inf|nan")
_HEADING = re.compile(r"^(?:[=#*-]{2,}\s*([^=#*\s|][^=#|]{0,80}?)\s*[=#*-]{2,}|([A-Za-z][^|=\[\]{}:,]{0,60}):)\s*$")


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
        self._words = [(name, word, literal(word.pattern)) for name, word in self.words.items()]

    def feed(self, line: str, cut: bool = False) -> None:
        self.take(clean(line, cut), cut)

    def take(self, whole_line: str, cut: bool) -> None:
        """One cleaned line."""
        text = whole_line[:MAX_SEARCHED]
        if not text.strip():
            return
        if self.documents:
            value = self._documents.feed(whole_line)
            if value is not None:
                self.document(value)
            if self._documents.took:
                return
        heading = _HEADING.match(text) if self.headings and len(text) <= 200 and text.rstrip()[-1] in ":=#*-" else None
        if heading is not None:
            self.heading((heading[1] or heading[2]).strip())
        lower = text.lower()
        if suspicious(lower) and (self.harmless is None or not self.harmless.search(text)):
            failure = classify(text)
            if failure is not None:
                self.found.fail(failure)
        for name, pattern, needs in self._words:
            if needs in lower and (match := pattern.search(text)):
                self.found.fact(name, match[1])
        if _FIGURES.search(lower):
            self.figures(text)
        self.line(text)
        if CUT in text and cut:
            self.cut(text)

    def figures(self, text: str) -> None:
        lower = text.lower()
        for each in self.rules:
            if each.needs not in lower:
                continue
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
