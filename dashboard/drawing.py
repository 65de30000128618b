"""Geometry of what the pages draw as SVG: lines, dots with an interval, bars on a shared time axis.

Nothing here knows a colour; the style sheet does. Positions along an axis are percentages, so that a drawing fits any
width without stretching its text. Lines are paths in a box of 1000 × 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from farm.domain.measurements import median_interval
from farm.store.reads.shared import Point

BOX_WIDTH, BOX_HEIGHT = 1000.0, 100.0


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time that things are placed on."""

    begin: datetime
    end: datetime

    def percent(self, at: datetime) -> float:
        """Where `at` lies, 0..100; outside is put on the edge."""
        length = (self.end - self.begin).total_seconds()
        if length <= 0:
            return 0.0
        return min(100.0, max(0.0, 100.0 * (at - self.begin).total_seconds() / length))


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with the figures that its box spans."""

    path: str
    low: float
    high: float
    last: float


def shared_scale(curves: Iterable[Sequence[Point]], *, step: float, least_steps: int = 2) -> tuple[float, float] | None:
    """(bottom, top) of one scale that holds all the curves, on round multiples of `step`; None without a value.

    Side by side curves can be compared only on one scale. At least `least_steps` steps keep noise small.
    """
    values = [point.value for points in curves for point in points]
    if not values:
        return None
    bottom, top = math.floor(min(values) / step), math.ceil(max(values) / step)
    while top - bottom < least_steps:
        bottom, top = (bottom - 1, top) if (top - bottom) % 2 else (bottom, top + 1)
    return bottom * step, top * step


def line(
    points: Sequence[Point],
    axis: Axis | None = None,
    *,
    least_span: float = 1.0,
    scale: tuple[float, float] | None = None,
) -> Line | None:
    """The curve through `points`; None for fewer than two.

    The box spans `scale` (bottom, top) when that is given, else the curve's own range, which `least_span` makes at
    least that many units high: it keeps noise small.
    """
    if len(points) < 2:
        return None
    axis = axis or Axis(points[0].at, points[-1].at)
    low, high = min(p.value for p in points), max(p.value for p in points)
    pad = max(0.0, least_span - (high - low)) / 2
    bottom, top = scale or (low - pad, high + pad)
    span = (top - bottom) or 1.0
    steps = (
        f"{axis.percent(p.at) / 100 * BOX_WIDTH:.1f} {BOX_HEIGHT * (1 - (p.value - bottom) / span):.1f}" for p in points
    )
    return Line("M" + "L".join(steps), low, high, points[-1].value)


@dataclass(frozen=True, slots=True)
class Dot:
    """One value: `x` in percent, `y` a small offset that keeps neighbours apart, `mark` why not to believe it."""

    x: float
    y: float
    mark: str | None
    value: float


@dataclass(frozen=True, slots=True)
class Dots:
    """Values around their median: 50 % is the median, the axis reaches `reach` (a share) to both sides."""

    dots: tuple[Dot, ...]
    interval: tuple[float, float] | None
    reach: float
    outside: int  # values beyond the axis, drawn on its edge


def reach_of(rows: Sequence[tuple[Sequence[float], float | None]]) -> float:
    """One axis for several rows of (values, median): the smallest of the round shares that holds nearly all."""
    far = [abs(v / middle - 1) for values, middle in rows if middle for v in values]
    if not far:
        return 0.05
    wanted = sorted(far)[min(len(far) - 1, math.floor(0.98 * len(far)))]
    return next((r for r in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if r >= wanted), 2.0)


def dots(values: Sequence[float], marks: Sequence[str | None], middle: float | None, reach: float) -> Dots | None:
    """The values of one measurement relative to the median of its clean ones; None when there is no such median."""
    if not middle:
        return None

    def place(value: float) -> float:
        return 50.0 + 50.0 * (value / middle - 1) / reach

    drawn = tuple(
        Dot(min(99.0, max(1.0, place(v))), (-3.0, 0.0, 3.0)[i % 3], mark, v)
        for i, (v, mark) in enumerate(zip(values, marks, strict=False))
    )
    clean = [v for v, mark in zip(values, marks, strict=False) if mark is None]
    found = median_interval(clean)
    interval = (max(0.0, place(found[0])), min(100.0, place(found[1]))) if found else None
    return Dots(drawn, interval, reach, sum(not 0 <= place(v) <= 100 for v in values))


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str
    anchor: str  # start, middle, end


def ticks_back(axis: Axis) -> tuple[Tick, ...]:
    """The same marks counted back from the axis' end, which is "now"."""
    marks = [
        Tick(100 - tick.x, "now" if tick.x == 0 else f"\u2212{tick.label}", _MIRRORED[tick.anchor])
        for tick in seconds_ticks(axis)
    ]
    return tuple(reversed(marks))


_MIRRORED = {"start": "end", "middle": "middle", "end": "start"}


def seconds_ticks(axis: Axis) -> tuple[Tick, ...]:
    """Three to six round marks, counted from the axis' beginning: `0 s`, `20 s`, … or minutes."""
    length = (axis.end - axis.begin).total_seconds()
    if length <= 0:
        return ()
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
    step = next((s for s in steps if length / s <= 5.5), length / 4)
    unit, size = ("s", 1) if step < 60 else ("min", 60) if step < 3600 else ("h", 3600)
    marks = [i * step for i in range(int(length / step) + 1)]
    return tuple(
        Tick(
            axis.percent(axis.begin + timedelta(seconds=at)),
            f"{at / size:g}\u202f{unit}",
            "start" if i == 0 else "end" if at / length > 0.96 else "middle",
        )
        for i, at in enumerate(marks)
    )
