"""How many pairs a question needs, from how far pairs of the same build scatter."""

from __future__ import annotations

import math

from scipy import stats

from farm.domain.verdicts.model import Series
from farm.domain.verdicts.pairs import pairs_of
from farm.domain.verdicts.robust import location
from farm.domain.verdicts.sequential import LOOK_EVERY, MOST_PAIRS, height_for


def pairs_needed(scatter: float, effect: float, *, alpha: float = 0.05, power: float = 0.95) -> int | None:
    """Pairs until an effect (fraction) is found with chance `power` at one-sided error `alpha`, rounded up to a look.

    `scatter`: standard deviation of the log ratio of pairs. None: not within `MOST_PAIRS`. For a change with m series
    that are judged together `alpha` is at worst FDR / m.
    """
    if effect <= 0:
        raise ValueError("an effect to look for is greater than zero")
    z = height_for(alpha) + float(stats.norm.ppf(power))
    return _rounded((z * scatter / math.log1p(effect)) ** 2)


def scatter_of(series: Series) -> float | None:
    """Standard deviation of the log ratio of a series' pairs, wild ones counted for nothing; None below ten pairs."""
    ratios = pairs_of(series).ratios
    if len(ratios) < LOOK_EVERY:
        return None
    centre, _, high = location(ratios, 0.90)
    return (high - centre) / float(stats.t.ppf(0.95, len(ratios) - 1)) * math.sqrt(len(ratios))


def further_pairs(centre: float, half_width: float, count: int, series: Series, alpha: float) -> int | None:
    """More pairs until a series that is undecided after `count` would be decided, if it goes on like this.

    `centre`, `half_width`: of its 90 % interval, log ratio. The nearer of: the interval fits into the margin; the
    effect stands out beyond doubt. None: more than there may be.
    """
    if not math.isfinite(half_width):
        return LOOK_EVERY
    error = half_width / float(stats.norm.ppf(0.95)) * math.sqrt(count)
    wanted: list[float] = []
    room = math.log1p(series.margin) - abs(centre)
    if room > 0:
        wanted.append((half_width / room) ** 2 * count)
    if abs(centre) >= math.log1p(series.min_effect):
        wanted.append((height_for(alpha) * error / abs(centre)) ** 2)
    total = _rounded(min(wanted, default=math.inf))
    if total is None or count >= MOST_PAIRS:
        return None
    return max(LOOK_EVERY - count % LOOK_EVERY, total - count)


def _rounded(pairs: float) -> int | None:
    if pairs > MOST_PAIRS:
        return None
    return max(LOOK_EVERY, math.ceil(pairs / LOOK_EVERY) * LOOK_EVERY)
