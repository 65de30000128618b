"""What is judged, and what comes out: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Of one series."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"


class PrVerdict(StrEnum):
    """Of all series of a change together."""

    PASSED = "passed"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Run:
    """One process's figure. `arm`: A is the base, B the candidate. None, zero, negative, infinite: not measured.

    `marks`: why the figure may not be believed (throttled, disturbed, …); a marked run's pair is left out.
    """

    arm: str
    value: float | None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One metric on one device, runs in the order of time. `min_effect` and `margin` are fractions (0.03 is 3 %)."""

    id: str
    runs: tuple[Run, ...]
    better: str = "lower"  # or "higher"
    metric: str = ""
    unit: str = ""
    device: str = ""
    min_effect: float = 0.01
    margin: float = 0.03
    broken: str | None = None  # a gate before statistics failed: which


@dataclass(frozen=True, slots=True)
class SeriesVerdict:
    """What is known of one series.

    effect: candidate over base, minus one (+0.05: five per cent more, whichever way is better); None without pairs.
    ci: its 90 % interval. p: one-sided, towards the side on which the effect lies, valid at every look.
    q: the same, adjusted for all series of the change. pairs: usable ones. needs: further pairs until a decision is
    likely, 0 when decided, None when more than the limit.
    """

    id: str
    verdict: Verdict
    effect: float | None
    ci: tuple[float, float] | None
    p: float | None
    q: float | None
    pairs: int
    needs: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    pr: PrVerdict
    series: tuple[SeriesVerdict, ...]
