"""Noise as phones make it, from the published accounts of their benchmarks: nothing here knows how it will be judged.

A run's figure is the truth times exp(noise): scatter of 1–7 %, a slow drift over the lease, two heat states that the
device falls into and out of, and one-sided outliers (somebody else had the processor). Each series draws its own mix.
Calibrated by what is known of plain gates on such devices: a mean 5 % above the base's raises an alarm on every clean
change of 30 series when the runs are separate, on 56 % when they are interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Nature:
    """How one series behaves; fractions of the figure."""

    scatter: float
    drift: float  # over 160 runs
    wander: float  # standard deviation of a random walk's step
    hot: float  # how much slower in the second heat state; 0: it has none
    turn: float  # chance per run to change the state
    outliers: float  # share of runs
    outlier: float  # mean size


def draw(rng: np.random.Generator) -> Nature:
    scatter = rng.uniform(0.01, 0.07)
    two_states = rng.random() < 0.5
    return Nature(
        scatter=scatter,
        drift=rng.normal(0, 0.04),
        wander=scatter * rng.uniform(0, 0.1),
        hot=rng.uniform(0.04, 0.12) if two_states else 0.0,
        turn=rng.uniform(0.01, 0.06),
        outliers=rng.uniform(0, 0.06),
        outlier=rng.uniform(0.05, 0.2),
    )


def slowness(nature: Nature, runs: int, rng: np.random.Generator) -> Array:
    """Log of how much slower than the truth each of `runs` runs in a row is."""
    at = np.arange(runs)
    noise = (
        rng.normal(0, nature.scatter, runs) + nature.drift * at / 160 + np.cumsum(rng.normal(0, nature.wander, runs))
    )
    if nature.hot:
        turns = np.cumsum(rng.random(runs) < nature.turn) + rng.integers(2)
        noise = noise + nature.hot * (turns % 2)
    struck = rng.random(runs) < nature.outliers
    return np.asarray(noise + struck * rng.exponential(nature.outlier, runs), dtype=np.float64)


def interleaved(pairs: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which runs are B: ABBA or BAAB by the coin, block after block."""
    blocks = [[False, True, True, False] if rng.random() < 0.5 else [True, False, False, True] for _ in range(pairs)]
    return np.array(blocks).reshape(-1)[: 2 * pairs]
