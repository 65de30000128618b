"""Statistics of paired log ratios that a few wild pairs cannot turn.

Tukey's bisquare weights (tuning constant 4.685: 95 % efficient for normal noise): a pair that is far out, since one of
its runs met a scheduler's whim or the device changed its heat state between them, counts for nothing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]

_TUNING = 4.685
_TO_SIGMA = 1.4826  # median absolute deviation → standard deviation of a normal
_ROUNDS = 50


def evidence(ratios: Array) -> float:
    """How much the pairs lean to one side, as a z value: sum of weighted ratios over its own length.

    The scale is taken about zero, so the statistic only changes sign when all ratios do. Where labels do not matter
    each pair's sign is a fair coin, whatever the noise looks like: no shape is assumed, no variance estimated.
    """
    scale = _scale(np.abs(ratios))
    if scale == 0:
        return 0.0
    scores = _scores(ratios / scale)
    length = math.sqrt(float(scores @ scores))
    return float(scores.sum()) / length if length else 0.0


def location(ratios: Array, confidence: float = 0.90) -> tuple[float, float, float]:
    """(centre, lower, upper): bisquare M-estimate and its interval, by Student's t on the sandwich variance."""
    centre = float(np.median(ratios))
    scale = _scale(np.abs(ratios - centre))
    if scale == 0:
        return centre, centre, centre
    for _ in range(_ROUNDS):
        weights = _weights((ratios - centre) / scale)
        moved = float(weights @ ratios / weights.sum())
        if abs(moved - centre) < 1e-9 * scale:
            break
        centre = moved
    scaled = (ratios - centre) / scale
    scores = _scores(scaled)
    slope = float(_slopes(scaled).mean())
    n = len(ratios)
    if slope <= 0.1 or n < 3:
        return centre, -math.inf, math.inf
    error = scale * math.sqrt(float(scores @ scores) / (n - 1)) / slope / math.sqrt(n)
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return centre, centre - half, centre + half


def _scale(distances: Array) -> float:
    """Of the noise, from distances to the centre; where over half of them are zero, of those that are not."""
    middle = float(np.median(distances))
    return _TO_SIGMA * (middle if middle > 0 else float(distances.mean()))


def _weights(scaled: Array) -> Array:
    inside = np.abs(scaled) < _TUNING
    return np.asarray(np.where(inside, (1 - (scaled / _TUNING) ** 2) ** 2, 0.0), dtype=np.float64)


def _scores(scaled: Array) -> Array:
    return np.asarray(scaled * _weights(scaled), dtype=np.float64)


def _slopes(scaled: Array) -> Array:
    square = (scaled / _TUNING) ** 2
    return np.asarray(np.where(square < 1, (1 - square) * (1 - 5 * square), 0.0), dtype=np.float64)
