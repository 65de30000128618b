"""How long things take, learnt from how long they took: per suite or test, for a bundle's name and a device type.

Each value is kept under its own bundle and type and under the wider keys (`ANY` in place of one or both), so that a
new engine or a new board has an estimate from its first job on; the narrowest key that has values speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: In place of a bundle's name or a device type: whichever.
ANY = "*"
#: So many of the newest values are kept.
KEPT = 30
SUITE, TEST, OVERHEAD = "suite", "test", "overhead"

#: (kind, name, bundle, device type)
LearntKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds: half of the past ones took at most `p50`, nine of ten at most `p90`; `n` values."""

    p50: float
    p90: float
    n: int


def keys(kind: str, name: str, bundle: str, device_type: str | None) -> Iterator[LearntKey]:
    """Where a value is looked for, the narrowest first; and all the places where it is kept."""
    seen = set()
    for b, t in ((bundle, device_type or ANY), (ANY, device_type or ANY), (bundle, ANY), (ANY, ANY)):
        if (b, t) not in seen:
            seen.add((b, t))
            yield kind, name, b, t


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between the neighbours; `values` is not empty."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(frozen=True, slots=True)
class Durations:
    """What has been learnt so far."""

    learnt: Mapping[LearntKey, Sequence[float]]

    def of(self, kind: str, name: str, bundle: str, device_type: str | None) -> Estimate | None:
        """None: never seen."""
        for key in keys(kind, name, bundle, device_type):
            values = self.learnt.get(key)
            if values:
                return Estimate(quantile(values, 0.5), quantile(values, 0.9), len(values))
        return None

    def of_job(
        self, suites: Iterable[str], tests: Iterable[str] | None, bundle: str, device_type: str | None
    ) -> Estimate | None:
        """A job's whole time with its device: the parts' medians added up, and what comes beside them.

        None as soon as one part was never seen. The p90 takes every part at its own p90: a careful figure.
        """
        parts = [(SUITE, name) for name in suites] if tests is None else [(TEST, name) for name in tests]
        found = [self.of(kind, name, bundle, device_type) for kind, name in parts]
        known = [estimate for estimate in found if estimate is not None]
        if not known or len(known) < len(found):
            return None
        beside = self.of(OVERHEAD, "", bundle, device_type)
        if beside is not None:
            known.append(beside)
        return Estimate(sum(e.p50 for e in known), sum(e.p90 for e in known), min(e.n for e in known))
