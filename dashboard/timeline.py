"""Attempts on one axis of time: their phases as bars, the device's temperature below on the same axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard import drawing, words
from farm.domain.outcomes import Phase
from farm.store.reads.shared import Series
from farm.store.reads.tries import AttemptRow


@dataclass(frozen=True, slots=True)
class Bar:
    """`x` and `width` in percent of the axis; `label` only where there is room for it."""

    phase: str
    x: float
    width: float
    label: str
    title: str
    open: bool


@dataclass(frozen=True, slots=True)
class Row:
    attempt: AttemptRow
    bars: tuple[Bar, ...]
    heat: drawing.Line | None
    heat_words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    rows: tuple[Row, ...]
    ticks: tuple[drawing.Tick, ...]
    begin: datetime
    end: datetime
    phases: tuple[str, ...]
    scale: tuple[float, float] | None  # °C, of every row's temperature alike


def timeline(attempts: Sequence[AttemptRow], heat: Mapping[int, Series], now: datetime) -> Timeline | None:
    """None when no attempt has begun."""
    spans = [(a.created_at, a.ended_at or now) for a in attempts]
    if not spans:
        return None
    axis = drawing.Axis(min(begin for begin, _ in spans), max(end for _, end in spans))
    seen = {span.phase for attempt in attempts for span in attempt.phases}
    scale = drawing.shared_scale([series.points for series in heat.values()], step=5.0)
    return Timeline(
        rows=tuple(_row(attempt, heat.get(attempt.id), axis, scale, now) for attempt in attempts),
        ticks=drawing.seconds_ticks(axis),
        begin=axis.begin,
        end=axis.end,
        phases=tuple(phase.value for phase in Phase if phase.value in seen),
        scale=scale,
    )


def _room(label: str) -> float:
    """The share of the axis, in percent, that holds `label` on a phone too, where the axis is about 160 px wide."""
    return 5 + 3.9 * len(label)


def _row(
    attempt: AttemptRow, heat: Series | None, axis: drawing.Axis, scale: tuple[float, float] | None, now: datetime
) -> Row:
    bars = []
    for span in attempt.phases:
        end = span.ended_at or attempt.ended_at or now
        x = axis.percent(span.began_at)
        width = max(0.0, axis.percent(end) - x)
        took = words.duration((end - span.began_at).total_seconds())
        still = span.ended_at is None and attempt.ended_at is None
        title = f"{span.phase}: {took}{' so far' if still else ''}"
        bars.append(Bar(span.phase, x, width, span.phase if width > _room(span.phase) else "", title, still))
    drawn = drawing.line(heat.points, axis, scale=scale) if heat else None
    said = f"{drawn.low:.1f} to {words.celsius(drawn.high)}" if drawn else f"temperature {words.NOT_MEASURED}"
    return Row(attempt, tuple(bars), drawn, said)
