"""A device's history: what held when, as lanes on one axis of time, and its events with equal ones told once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard import drawing, words
from farm.domain.devices import Connection, Health
from farm.store.reads.devices import EventRow
from farm.store.reads.history import History, Span

#: What a page offers to look back on, by the word in its address.
WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
#: What leases do to a device; told as one kind, HELD.
LEASE_KINDS = ("leased", "released", "freed", "extended", "lease-ends-soon")
HELD, CONNECTION = "held", "connection"
#: Holders that one line names.
NAMED = 6

_COLOURS = {
    Connection.ONLINE.value: "ok",
    Connection.GONE.value: "absent",
    Health.GOOD.value: "ok",
    Health.MAINTENANCE.value: "muted",
    "held": "accent",
    "cleaned": "muted",
    "reserved": "farm",
}
_PLAIN = {Connection.ONLINE.value: "connected"}


@dataclass(frozen=True, slots=True)
class Bar:
    """`x` and `width` in percent of the axis; `colour` a class of the style sheet, "warn" for what needs a look."""

    x: float
    width: float
    colour: str
    word: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    bars: tuple[Bar, ...]
    now: str  # what holds at the end


@dataclass(frozen=True, slots=True)
class HistoryView:
    """`legend`: (colour, word) of what occurs. `heat` is drawn on `scale` (bottom, top), °C."""

    lanes: tuple[Lane, ...]
    reboots: tuple[tuple[float, str], ...]
    heat: drawing.Line | None
    scale: tuple[float, float] | None
    ticks: tuple[drawing.Tick, ...]
    legend: tuple[tuple[str, str], ...]
    span: str


def view(history: History) -> HistoryView:
    axis = drawing.Axis(history.begin, history.end)
    lanes = (
        _lane("adb", history.connection, axis),
        _lane("health", history.health, axis),
        _lane("held by", history.held, axis, otherwise="nobody"),
    )
    points = history.temperature.points
    scale = drawing.shared_scale([points], step=5.0)
    seen = {(bar.colour, bar.word): None for lane in lanes for bar in lane.bars}
    return HistoryView(
        lanes=lanes,
        reboots=tuple((axis.percent(at), f"rebooted {words.exact(at)}") for at in history.reboots),
        heat=drawing.line(points, axis, scale=scale),
        scale=scale,
        ticks=drawing.ticks_back(axis),
        legend=tuple(seen),
        span=words.duration((history.end - history.begin).total_seconds()),
    )


def _lane(name: str, spans: Sequence[Span], axis: drawing.Axis, otherwise: str = "unknown") -> Lane:
    last = next((span for span in reversed(spans) if span.ended_at is None), None)
    now = otherwise if last is None else last.held_by or _word(last)
    return Lane(name, tuple(_bar(span, axis) for span in spans), now)


def _word(span: Span) -> str:
    if span.word == "held" and span.holder and span.holder.startswith("reservation:"):
        return "reserved"
    return _PLAIN.get(span.word, span.word)


def _bar(span: Span, axis: drawing.Axis) -> Bar:
    end = span.ended_at or axis.end
    word = _word(span)
    x = axis.percent(span.began_at)
    took = words.duration((end - span.began_at).total_seconds())
    who = f" by {span.held_by}" if span.held_by and word != "cleaned" else ""
    lasting = "" if span.ended_at else " so far"
    title = f"{word}{who}: {took}{lasting}, from {words.exact(span.began_at)}"
    colour = _COLOURS.get(word if word == "reserved" else span.word, "warn")
    return Bar(x, max(0.0, axis.percent(end) - x), colour, word, title)


def _href(holder: str | None) -> str | None:
    kind, _, number = (holder or "").partition(":")
    return f"/attempts/{number}" if kind == "attempt" and number.isdigit() else None


@dataclass(slots=True)
class EventGroup:
    """Events in a row that say the same, newest first: told once. What leases do in a row, and a plug that comes and
    goes, is one group as well."""

    kind: str
    words: str  # of the newest
    events: list[EventRow]

    @property
    def at(self) -> datetime:
        return self.events[0].at

    @property
    def since(self) -> datetime:
        return self.events[-1].at

    @property
    def text(self) -> str:
        count = len(self.events)
        if self.kind == HELD or count == 1:
            return self.words
        if self.kind == CONNECTION:
            gone = sum(event.detail.get("connection") == Connection.GONE.value for event in self.events)
            return f"{self.words}; gone {'once' if gone == 1 else f'{gone} times'}"
        return f"{self.words}; {count} times"

    @property
    def _holders(self) -> list[str]:
        return list(dict.fromkeys(str(e.detail["holder"]) for e in self.events)) if self.kind == HELD else []

    @property
    def links(self) -> list[tuple[str, str | None]]:
        """(holder in words, its page) of the newest holders; `more` is how many are left out."""
        return [(holder.replace(":", " "), _href(holder)) for holder in self._holders[:NAMED]]

    @property
    def more(self) -> int:
        return max(0, len(self._holders) - NAMED)


def grouped(events: Sequence[EventRow], tell: Callable[[EventRow], str]) -> list[EventGroup]:
    """`events` newest first; `tell` says one in words. Attempts' leases are left out: attempts have their own list."""
    groups: list[EventGroup] = []
    for event in events:
        if event.kind in LEASE_KINDS and str(event.detail.get("holder")).startswith("attempt:"):
            continue
        held = event.kind in LEASE_KINDS and "holder" in event.detail
        kind, said = (HELD, "") if held else (event.kind, tell(event))
        last = groups[-1] if groups else None
        if last and last.kind == kind and (kind in (HELD, CONNECTION) or last.words == said):
            last.events.append(event)
        else:
            groups.append(EventGroup(kind, said, [event]))
    return groups
