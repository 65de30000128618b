"""Looking again and again without being fooled: p values that stay valid however often one looks.

The evidence z is looked at every `LOOK_EVERY` pairs, at most `LOOKS` times, against a boundary of the Wang–Tsiatis
family (Biometrics 1987): c · (look / LOOKS) ** (SHAPE − ½). Early looks ask for more. The p value is the chance that
noise alone would ever reach as high, over all looks, as the data did so far: the recursion of Armitage, McPherson and
Rowe (1969) on the random walk's density.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

LOOK_EVERY = 10
LOOKS = 8
MOST_PAIRS = LOOK_EVERY * LOOKS
SHAPE = 0.25  # between O'Brien–Fleming's (0) and Pocock's (½)

_STEP = 0.02
_REACH = 12.0
_HEIGHTS = np.arange(0.0, 6.01, 0.1)


def boundary(look: int) -> float:
    """Of look 1, 2, … `LOOKS`, as a multiple of the last one's."""
    return float((look / LOOKS) ** (SHAPE - 0.5))


def height(evidence: Sequence[float]) -> float:
    """The highest that z rose, look by look from the first, in units of the boundary."""
    return max((z / boundary(look) for look, z in enumerate(evidence, start=1)), default=0.0)


def p_value(evidence: Sequence[float]) -> float:
    """One-sided p of the looks so far (z values, first look first); 1 without any."""
    if not evidence:
        return 1.0
    return float(np.exp(np.interp(height(evidence), _HEIGHTS, _log_chances())))


def height_for(p: float) -> float:
    """The boundary's height that noise reaches with chance `p`."""
    logs = _log_chances()
    return float(np.interp(-np.log(p), -logs, _HEIGHTS))


@lru_cache(maxsize=1)
def _log_chances() -> npt.NDArray[np.float64]:
    return np.array([math.log(min(1.0, _chance(float(h)))) for h in _HEIGHTS])


def _chance(height: float) -> float:
    """Of a standard normal random walk to be at or above the boundary at any look."""
    grid = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    density = _normal(grid)
    reach = np.arange(-8.0, 8.0 + _STEP / 2, _STEP)
    step = _normal(reach) * _STEP
    total = 0.0
    for look in range(1, LOOKS + 1):
        if look > 1:
            density = np.convolve(density, step, "same")
        above = grid >= height * boundary(look) * np.sqrt(look)
        total += float(density[above].sum()) * _STEP
        density = np.where(above, 0.0, density)
    return max(total, 1e-300)


def _normal(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), dtype=np.float64)
