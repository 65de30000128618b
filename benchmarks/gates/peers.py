"""Gates in use elsewhere, written out small: figures of base and candidate in, "is it worse?" out. Lower is better.

* threshold: the candidate's mean is so much above the base's (github-action-benchmark and many a home-made gate);
* Mann–Whitney at 5 % per series (benchstat, Otava's and Perfherder's kin), with at least so much difference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
Gate = Callable[[Array, Array], bool]


def threshold(share: float) -> Gate:
    return lambda base, candidate: bool(candidate.mean() > base.mean() * (1 + share))


def mann_whitney(alpha: float = 0.05, least: float = 0.0) -> Gate:
    def gate(base: Array, candidate: Array) -> bool:
        p = stats.mannwhitneyu(candidate, base, alternative="greater").pvalue
        return bool(p < alpha and np.median(candidate) > np.median(base) * (1 + least))

    return gate


GATES: dict[str, Gate] = {
    "mean + 5 %": threshold(0.05),
    "mean + 15 %": threshold(0.15),
    "mean + 20 %": threshold(0.20),
    "Mann-Whitney 5 %": mann_whitney(),
    "Mann-Whitney 5 %, and 5 % apart": mann_whitney(least=0.05),
}
#: Runs per side, as such gates are used.
RUNS = 10
