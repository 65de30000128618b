"""Whether a change made something worse on a device, and how sure that is.

A candidate (B) is compared with its base (A) on one device, in one lease, run by run in turn. Neighbouring runs make a
pair; the logarithm of their ratio is what is judged, so that drift and heat, which both runs of a pair share, cancel.

* *regressed*: worse beyond doubt, and by at least `min_effect`;
* *improved*: likewise better;
* *unchanged*: the 90 % interval of the effect lies inside ± `margin`;
* *inconclusive*: neither yet, with how many more pairs it would take;
* *broken*: the series cannot be judged; says why.

"Beyond doubt" holds for the whole set of series of a change, not for one of them: the false discovery rate over all
series is kept at `FDR`, and it is kept although the data are looked at again every `LOOK_EVERY` pairs.

    judge([Series(id="decode", better="higher", runs=(Run("A", 41.0), Run("B", 39.2), ...)), ...]) -> Judgement
"""

from farm.domain.verdicts.judge import FDR, judge
from farm.domain.verdicts.model import Judgement, PrVerdict, Run, Series, SeriesVerdict, Verdict
from farm.domain.verdicts.planning import pairs_needed
from farm.domain.verdicts.sequential import LOOK_EVERY, MOST_PAIRS

__all__ = [
    "FDR",
    "LOOK_EVERY",
    "MOST_PAIRS",
    "Judgement",
    "PrVerdict",
    "Run",
    "Series",
    "SeriesVerdict",
    "Verdict",
    "judge",
    "pairs_needed",
]
