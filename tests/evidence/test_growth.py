"""Memory that grows without end is told from a cache that fills."""

from __future__ import annotations

import random

import pytest

from farm.evidence.growth import leaking


def samples(*pieces: tuple[int, float, float], noise: float = 0.0) -> tuple[list[float], list[float]]:
    """One a second: (how many, from, to) in MB."""
    r = random.Random(1)
    values = [a + (b - a) * i / max(1, n - 1) + r.uniform(-noise, noise) for n, a, b in pieces for i in range(n)]
    return [float(i) for i in range(len(values))], values


def test_growth_that_nothing_explains_is_a_leak() -> None:
    found = leaking(*samples((30, 100, 400), noise=3), 50.0)
    assert found is not None
    assert found.grown_mb == pytest.approx(300, abs=15)
    assert found.rate == pytest.approx(300 / 29, rel=0.15)
    assert "MB/s" in found.words()


@pytest.mark.parametrize(
    ("pieces", "allowance"),
    [
        (((30, 100, 400),), 400.0),  # the cache fills
        (((10, 100, 400), (30, 400, 400)), 50.0),  # it grew, and stands still
        (((40, 100, 105),), 0.0),  # an allocator's small change
        (((5, 100, 900),), 0.0),  # too few to tell
        (((20, 400, 100),), 0.0),
        (((15, 100, 400), (15, 400, 100)), 0.0),  # given back
        ((), 0.0),
    ],
)
def test_what_is_explained_or_ends_is_none(pieces: tuple[tuple[int, float, float], ...], allowance: float) -> None:
    assert leaking(*samples(*pieces), allowance) is None


def test_many_samples_are_thinned() -> None:
    assert leaking(*samples((20_000, 100, 3000), noise=5), 100.0) is not None
