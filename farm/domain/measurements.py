"""What a test measured: always a list of values with a unit and a direction, never one bare number.

A measurement belongs to a test, an attempt, a device, its fingerprint and a temperature band. Samples that were taken
while the device throttled or the host was disturbed are *marked*, never dropped in silence. Zero, infinity and NaN mean
"not measured" for rates and times; such a value is refused here, so that no page can show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median


class Better(StrEnum):
    """Which way is good."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"  # a fact (page size), not a figure of merit


class Mark(StrEnum):
    """Why a sample should not be believed without a second look."""

    WARMUP = "warmup"
    THROTTLED = "throttled"
    DISTURBED = "disturbed"  # pressure from others on the host
    IMPLAUSIBLE = "implausible"


@dataclass(frozen=True, slots=True)
class Measurement:
    """`values` in `unit`, in the order in which they were taken; `marks`: one per value, None for a clean one."""

    name: str
    unit: str
    better: Better
    values: tuple[float, ...]
    marks: tuple[Mark | None, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"measurement {self.name!r} has no values: leave it out instead")
        bad = [v for v in self.values if not math.isfinite(v) or (v == 0 and self.better is not Better.NEITHER)]
        if bad:
            raise ValueError(f"measurement {self.name!r} holds {bad[0]!r}, which means 'not measured': leave it out")
        if not self.marks:
            object.__setattr__(self, "marks", (None,) * len(self.values))
        if len(self.marks) != len(self.values):
            raise ValueError(f"measurement {self.name!r}: {len(self.marks)} marks for {len(self.values)} values")

    @property
    def clean(self) -> tuple[float, ...]:
        """The unmarked values, in order."""
        return tuple(v for v, m in zip(self.values, self.marks, strict=True) if m is None)

    @property
    def median(self) -> float | None:
        """Median of the clean values; None when every sample is marked."""
        return median(self.clean) if self.clean else None


def temperature_band(celsius: float | None) -> str:
    """The 5 °C band that a measurement is filed under, e.g. "30-35 °C"; "unknown" without a reading."""
    if celsius is None or not 1 <= celsius <= 150:
        return "unknown"
    low = int(celsius // 5) * 5
    return f"{low}-{low + 5} °C"


def spread(values: Sequence[float]) -> float | None:
    """Robust relative spread: (p90 - p10) / median; None for fewer than three values."""
    if len(values) < 3:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return (ordered[round(0.9 * last)] - ordered[round(0.1 * last)]) / median(ordered)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median that assumes nothing of the distribution (order statistics, sign test).

    None for fewer than six values: no pair of them reaches 95 %.
    """
    n = len(values)
    if n < 6:
        return None
    ordered = sorted(values)
    if n > 200:  # the binomial is a normal by then
        tail = math.floor(n / 2 - 0.98 * math.sqrt(n))
        return ordered[tail], ordered[n - 1 - tail]
    tail, chance = 0, 0.5**n
    below = chance  # P(at most `tail` values lie below the median)
    while below + math.comb(n, tail + 1) * chance <= 0.025:
        tail += 1
        below += math.comb(n, tail) * chance
    return ordered[tail], ordered[n - 1 - tail]
