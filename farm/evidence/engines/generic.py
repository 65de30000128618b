"""Any engine that prints something: figures picked by regular expressions or JSON paths that its bundle names.

    metrics:
      - {name: decode_rate, unit: tok/s, better: higher, regex: 'decode: ([0-9.]+) tok/s'}
      - {name: ttft, unit: ms, better: lower, json_path: timings.first_token_ms}
      - {name: token_time, unit: ms, better: lower, json_path: 'tokens[*].ms'}

A regular expression is searched in every line; its group `value`, else its first group, is the figure. A JSON path is
looked up in every line that is a JSON object, and in the whole output when that is one: names and `[index]` or `[*]`
joined by dots, `$.` in front allowed. `text` in the same form names the output text of the engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from farm.evidence.engines.report import (
    MAX_NOTES,
    MAX_VALUES,
    Reading,
    Report,
    Status,
    json_object,
    measured,
)

#: Characters of a line that a bundle's expression is tried on: bounds what a bad expression can cost.
MAX_SEARCHED = 4096
MAX_WHOLE = 4 << 20
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,6}|\*)\]")


class MetricError(ValueError):
    """A metric of the bundle cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure to look for; exactly one of `regex` and `path`."""

    name: str
    unit: str
    better: str
    regex: re.Pattern[str] | None = None
    path: tuple[str | int | None, ...] | None = None  # None: every element

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Metric:
        """From the bundle's manifest. Raises MetricError."""
        name, regex, path = spec.get("name"), spec.get("regex"), spec.get("json_path")
        if not isinstance(name, str) or not name or (regex is None) == (path is None):
            raise MetricError(f"metric {name!r}: needs a name and exactly one of regex and json_path")
        better = str(spec.get("better", "neither"))
        if better not in ("lower", "higher", "neither"):
            raise MetricError(f"metric {name!r}: better is lower, higher or neither, not {better!r}")
        unit = str(spec.get("unit") or "1")[:40]
        if path is not None:
            return cls(name[:200], unit, better, path=json_path(str(path)))
        try:
            compiled = re.compile(str(regex))
        except re.error as error:
            raise MetricError(f"metric {name!r}: {regex!r} is no regular expression: {error}") from error
        if not compiled.groups:
            raise MetricError(f"metric {name!r}: {regex!r} has no group for the figure")
        return cls(name[:200], unit, better, regex=compiled)


def json_path(text: str) -> tuple[str | int | None, ...]:
    """The steps of a path; `[*]` is None. Raises MetricError."""
    steps: list[str | int | None] = []
    rest = text.removeprefix("$").removeprefix(".")
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None:
            raise MetricError(f"JSON path {text!r}: not understood at {rest[at : at + 20]!r}")
        name, index = match.groups()
        steps.append(name if name is not None else None if index == "*" else int(index))
        at = match.end()
        if at < len(rest) and rest[at] == ".":
            at += 1
    if not steps:
        raise MetricError(f"JSON path {text!r} is empty")
    return tuple(steps)


def look_up(value: Any, steps: Sequence[str | int | None]) -> Iterator[Any]:
    """Every value that the path reaches."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is None:
        for item in value if isinstance(value, list) else ():
            yield from look_up(item, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from look_up(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from look_up(value[step], rest)


@dataclass(slots=True)
class Generic:
    """Looks for a bundle's metrics in what its engine prints, line by line; bounded, never raises while fed."""

    metrics: tuple[Metric, ...]
    text_path: tuple[str | int | None, ...] | None = None
    text_regex: re.Pattern[str] | None = None
    texts: list[str] = field(default_factory=list)
    _values: dict[str, list[float]] = field(default_factory=dict)
    _whole: list[str] = field(default_factory=list)
    _size: int = 0
    _bad: int = 0

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Generic:
        """From the `generic` part of a bundle's manifest. Raises MetricError."""
        text = spec.get("text") or {}
        try:
            regex = re.compile(str(text["regex"])) if text.get("regex") else None
        except re.error as error:
            raise MetricError(f"text: {text['regex']!r} is no regular expression: {error}") from error
        path = json_path(str(text["json_path"])) if text.get("json_path") else None
        return cls(tuple(Metric.of(item) for item in spec.get("metrics") or ()), path, regex)

    def feed(self, line: str) -> None:
        """Take one line of standard output."""
        if self._size < MAX_WHOLE:
            self._whole.append(line)
            self._size += len(line) + 1
        body = json_object(line)
        if body is not None:
            self._from_json(body)
        searched = line[:MAX_SEARCHED]
        for metric in self.metrics:
            match = metric.regex.search(searched) if metric.regex is not None else None
            if match is not None:
                self._take(metric, match["value"] if "value" in match.re.groupindex else match[1])
        if self.text_regex is not None and (match := self.text_regex.search(searched)) and len(self.texts) < 1000:
            self.texts.append(match[1] if match.re.groups else match[0])

    def report(self) -> Report:
        if not self._values and self._size < MAX_WHOLE:
            try:
                self._from_json(json.loads("\n".join(self._whole)))
            except (ValueError, RecursionError):
                pass
        readings = [
            Reading(metric.name, metric.unit, metric.better, tuple(self._values[metric.name]))
            for metric in self.metrics
            if self._values.get(metric.name)
        ]
        missing = [metric.name for metric in self.metrics if not self._values.get(metric.name)]
        notes = [f"{name}: not found in the output" for name in missing]
        if self._bad:
            notes.append(f"not measured, since zero, infinite or no number: {self._bad} of its figures")
        if not self.metrics:
            status = Status.NO_METRICS
        else:
            status = Status.OK if not missing else Status.INCOMPLETE if readings else Status.NO_METRICS
        return Report(status, tuple(readings), tuple(notes[:MAX_NOTES]))

    def _from_json(self, body: Any) -> None:
        for metric in self.metrics:
            if metric.path is not None:
                for value in look_up(body, metric.path):
                    self._take(metric, value)
        if self.text_path is not None:
            found = (value for value in look_up(body, self.text_path) if isinstance(value, str))
            self.texts.extend(value for value in list(found)[:100] if len(self.texts) < 1000)

    def _take(self, metric: Metric, value: Any) -> None:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        figure = measured(value)
        kept = self._values.setdefault(metric.name, [])
        if figure is None:
            self._bad += 1
        elif len(kept) < MAX_VALUES:
            kept.append(figure)
