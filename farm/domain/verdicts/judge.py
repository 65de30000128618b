"""All series of a change, judged together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from farm.domain.verdicts import robust, sequential
from farm.domain.verdicts.model import Judgement, PrVerdict, Series, SeriesVerdict, Verdict
from farm.domain.verdicts.pairs import Pairs, pairs_of
from farm.domain.verdicts.planning import further_pairs
from farm.domain.verdicts.sequential import LOOK_EVERY, LOOKS, MOST_PAIRS
from farm.domain.words import count

#: False discovery rate over all series of a change; where none is worse, the chance of any false alarm.
FDR = 0.05


@dataclass(frozen=True, slots=True)
class _Looked:
    """A series with what its pairs say. Signs are turned so that more is worse."""

    series: Series
    pairs: Pairs
    centre: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    p_worse: float = 1.0
    p_better: float = 1.0

    @property
    def broken(self) -> str:
        return self.series.broken or self.pairs.broken

    @property
    def count(self) -> int:
        return len(self.pairs.ratios)


def judge(series: Iterable[Series], *, fdr: float = FDR) -> Judgement:
    """Judge every series, and the change as a whole. The same runs always give the same judgement."""
    looked = [_look(one) for one in series]
    judged = [one for one in looked if not one.broken]
    worse = dict(zip(map(id, judged), adjusted([one.p_worse for one in judged]), strict=True))
    better = dict(zip(map(id, judged), adjusted([one.p_better for one in judged]), strict=True))
    made = tuple(_verdict(one, worse.get(id(one), 1.0), better.get(id(one), 1.0), fdr, len(judged)) for one in looked)
    return Judgement(_roll_up([one.verdict for one in made]), made)


def adjusted(p: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q values (J. R. Stat. Soc. B 1995), in the order given."""
    if not p:
        return []
    order = np.argsort(p)
    ranked = np.asarray(p)[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.minimum(1.0, np.minimum.accumulate(ranked[::-1])[::-1])
    out = np.empty(len(p))
    out[order] = q
    return [float(one) for one in out]


def _look(series: Series) -> _Looked:
    pairs = pairs_of(series)
    ratios = pairs.ratios if series.better == "lower" else -pairs.ratios
    if not len(ratios):
        return _Looked(series, pairs)
    looks = [robust.evidence(ratios[: k * LOOK_EVERY]) for k in range(1, min(LOOKS, len(ratios) // LOOK_EVERY) + 1)]
    centre, low, high = robust.location(ratios)
    p_worse, p_better = sequential.p_value(looks), sequential.p_value([-z for z in looks])
    return _Looked(series, pairs, centre, low, high, p_worse, p_better)


def _verdict(one: _Looked, q_worse: float, q_better: float, fdr: float, family: int) -> SeriesVerdict:
    if one.broken or not one.count:
        verdict = Verdict.BROKEN if one.broken else Verdict.INCONCLUSIVE
        needs = LOOK_EVERY if verdict is Verdict.INCONCLUSIVE else None
        return SeriesVerdict(one.series.id, verdict, None, None, None, None, one.count, needs, one.broken or "no pair")
    verdict, reason = _decide(one, q_worse, q_better, fdr)
    decided = verdict is not Verdict.INCONCLUSIVE
    worse = one.centre >= 0
    needs = 0 if decided else further_pairs(one.centre, one.high - one.centre, one.count, one.series, fdr / family)
    if verdict is Verdict.INCONCLUSIVE and not reason:
        reason = _undecided_words(one, needs)
    return SeriesVerdict(
        id=one.series.id,
        verdict=verdict,
        effect=_fraction(one.centre, one.series),
        ci=_interval(one),
        p=one.p_worse if worse else one.p_better,
        q=q_worse if worse else q_better,
        pairs=one.count,
        needs=needs,
        reason=reason,
    )


def _decide(one: _Looked, q_worse: float, q_better: float, fdr: float) -> tuple[Verdict, str]:
    if one.pairs.weak:
        return Verdict.INCONCLUSIVE, one.pairs.weak
    if one.count < LOOK_EVERY:
        return Verdict.INCONCLUSIVE, f"{count(one.count, 'pair')}: the first look is at {LOOK_EVERY}"
    least = math.log1p(one.series.min_effect)
    if q_worse <= fdr and one.centre >= least:
        return Verdict.REGRESSED, ""
    if q_better <= fdr and -one.centre >= least:
        return Verdict.IMPROVED, ""
    margin = math.log1p(one.series.margin)
    if -margin < one.low and one.high < margin:
        return Verdict.UNCHANGED, ""
    return Verdict.INCONCLUSIVE, ""


def _undecided_words(one: _Looked, needs: int | None) -> str:
    if needs is None:
        return f"too noisy to be decided within {MOST_PAIRS} pairs"
    return f"about {count(needs, 'more pair')} would decide it"


def _interval(one: _Looked) -> tuple[float, float] | None:
    if not math.isfinite(one.low) or not math.isfinite(one.high):
        return None
    low, high = sorted((_fraction(one.low, one.series), _fraction(one.high, one.series)))
    return low, high


def _fraction(worse: float, series: Series) -> float:
    """A log ratio whose sign says "worse" → candidate over base, minus one."""
    return math.expm1(worse if series.better == "lower" else -worse)


def _roll_up(verdicts: Sequence[Verdict]) -> PrVerdict:
    for verdict, whole in (
        (Verdict.REGRESSED, PrVerdict.REGRESSED),
        (Verdict.BROKEN, PrVerdict.BROKEN),
        (Verdict.INCONCLUSIVE, PrVerdict.INCONCLUSIVE),
    ):
        if verdict in verdicts:
            return whole
    return PrVerdict.PASSED if verdicts else PrVerdict.INCONCLUSIVE
