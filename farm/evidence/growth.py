"""Does an engine's memory grow without end? From samples of what it has to itself, while it computes.

A cache for keys and values grows too, and is no leak: it grows up to a size that is known (`allowance`), as buffers
do. So memory counts as leaking when it has grown by more than that since the engine began to compute, and was still
growing in the last third. The slope is Theil and Sen's (the median of the slopes of all pairs): a few odd samples do
not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: Fewest samples that can show growth, and most that are looked at (pairs of them are compared).
MIN_SAMPLES, MAX_SAMPLES = 8, 200
#: Memory of allocators and threads that comes with the first work, MB.
SLACK_MB = 24.0
#: Of the slope over all, the last third must keep at least this share.
STILL = 0.3


@dataclass(frozen=True, slots=True)
class Growth:
    """`grown_mb` since the first sample, of which `allowance_mb` is explained; `rate` in MB/s over the last third."""

    grown_mb: float
    allowance_mb: float
    rate: float
    seconds: float

    def words(self) -> str:
        return (
            f"its memory grew by {self.grown_mb:.0f} MB in {self.seconds:.0f} s and went on at {self.rate:.1f} MB/s; "
            f"cache and buffers explain {self.allowance_mb:.0f} MB"
        )


def leaking(times: Sequence[float], values_mb: Sequence[float], allowance_mb: float) -> Growth | None:
    """`times` in seconds, in order; `values_mb`: memory that is the engine's own. None: no sustained growth."""
    points = list(zip(times, values_mb, strict=True))
    if len(points) > MAX_SAMPLES:
        points = points[:: -(-len(points) // MAX_SAMPLES)]
    if len(points) < MIN_SAMPLES or points[-1][0] <= points[0][0]:
        return None
    tail = points[-max(4, len(points) // 3) :]
    grown = median(value for _, value in points[-3:]) - points[0][1]
    whole, last = _slope(points), _slope(tail)
    explained = allowance_mb + SLACK_MB
    if grown <= explained or whole <= 0 or last < STILL * whole:
        return None
    return Growth(grown, explained, last, points[-1][0] - points[0][0])


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """MB/s."""
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0]) for index, a in enumerate(points) for b in points[index + 1 :] if b[0] > a[0]
    ]
    return median(slopes) if slopes else 0.0
