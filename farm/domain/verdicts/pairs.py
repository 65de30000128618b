"""Runs in the order of time → paired log ratios, and what is wrong with the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from farm.domain.verdicts.model import Run, Series
from farm.domain.words import count

#: With a greater share of runs without a figure the series is broken: what is missing may be the slow ones.
MOST_MISSING = 0.1
#: With a greater share of marked runs there is nothing left to be sure of.
MOST_MARKED = 0.5
#: Units of a clock or a rate: their figures can be coarser than the effect that is looked for. Counts and bytes cannot.
_CLOCKS = frozenset({"s", "ms", "us", "µs", "ns", "tok/s", "token/s", "1/s", "fps", "GB/s", "MB/s"})
#: A figure that takes so few values, this far apart, is the clock's and not the engine's.
_FEW_VALUES = 0.25


@dataclass(frozen=True, slots=True)
class Pairs:
    """`ratios`: log(B / A) of neighbouring runs, in the order of time. `broken`, `weak`: why not to judge by them."""

    ratios: npt.NDArray[np.float64]
    broken: str = ""
    weak: str = ""


def pairs_of(series: Series) -> Pairs:
    """Neighbouring runs of different arms, each run used once; pairs with a missing or a marked run are left out."""
    runs = series.runs
    odd = sorted({run.arm for run in runs} - {"A", "B"})
    if odd:
        return Pairs(np.empty(0), broken=f"runs of an unknown arm {odd[0]!r}: A is the base, B the candidate")
    ratios: list[float] = []
    at = 0
    while at + 1 < len(runs):
        first, second = runs[at], runs[at + 1]
        if first.arm == second.arm:
            at += 1
            continue
        at += 2
        if first.value is not None and second.value is not None and usable(first) and usable(second):
            ratio = math.log(second.value) - math.log(first.value)
            ratios.append(ratio if first.arm == "A" else -ratio)
    return Pairs(np.array(ratios, dtype=np.float64), broken=_broken(series), weak=_weak(runs))


def usable(run: Run) -> bool:
    return measured(run) and not run.marks


def measured(run: Run) -> bool:
    """Zero, negative, infinite and NaN mean *not measured*."""
    return run.value is not None and math.isfinite(run.value) and run.value > 0


def _broken(series: Series) -> str:
    missing = sum(not measured(run) for run in series.runs)
    if missing > MOST_MISSING * len(series.runs):
        return f"missing samples: {missing} of {count(len(series.runs), 'run')} without a figure"
    return _coarse(series)


def _weak(runs: Sequence[Run]) -> str:
    marks = Counter(mark for run in runs for mark in run.marks)
    marked = sum(bool(run.marks) for run in runs)
    if marked > MOST_MARKED * len(runs):
        worst, count = marks.most_common(1)[0]
        return f"{marked} of {len(runs)} runs are not to be believed ({worst}: {count})"
    return ""


def _coarse(series: Series) -> str:
    """A clock that ticks in steps wider than the margin: the figures say how the clock rounds."""
    if series.unit not in _CLOCKS:
        return ""
    values = np.array([run.value for run in series.runs if measured(run)], dtype=np.float64)
    distinct = np.unique(values)
    if len(values) < 8 or not 1 < len(distinct) <= max(2, _FEW_VALUES * len(values)):
        return ""
    step = float(np.min(np.diff(distinct)))
    share = step / float(np.median(values))
    if share <= series.margin:
        return ""
    return f"clock resolution too coarse: figures are {step:g} {series.unit} apart, {share:.0%} of their size"
