"""The reference engine's event stream as one parser among the others."""

from __future__ import annotations

from farm.evidence.engines.events import EventStream
from farm.evidence.engines.report import Report


class EventLines:
    """Every line is an event or none; a cut one is no JSON and falls out by itself."""

    def __init__(self) -> None:
        self._stream = EventStream()

    def feed(self, line: str, cut: bool = False) -> None:
        self._stream.feed(line)

    def report(self) -> Report:
        return self._stream.report()
