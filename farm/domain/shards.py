"""Splitting a suite into parts that take about as long as each other: longest processing time first (Graham 1969).

The longest test goes first, each next one to the part that has the least so far: no part is longer than 4/3 of what
the best split could do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from statistics import median

#: A test of which nothing at all is known, seconds, where none of the others is known either.
UNKNOWN_S = 10.0


def split(tests: Sequence[str], seconds: Mapping[str, float], parts: int) -> list[list[str]]:
    """At most `parts` lists, none empty, every test in exactly one, in the order in which they came.

    A test without a known duration counts as the median of the others. The same input gives the same parts.
    """
    if parts < 1:
        raise ValueError(f"a suite cannot be split into {parts} parts")
    known = [seconds[test] for test in tests if test in seconds]
    usual = median(known) if known else UNKNOWN_S
    cost = {test: max(0.0, seconds.get(test, usual)) for test in tests}
    heap = [(0.0, n) for n in range(min(parts, len(cost)))]
    heapify(heap)
    part_of: dict[str, int] = {}
    for test in sorted(cost, key=lambda t: (-cost[t], t)):
        load, n = heappop(heap)
        part_of[test] = n
        heappush(heap, (load + max(cost[test], 1e-9), n))
    made: dict[int, list[str]] = {}
    for test in cost:
        made.setdefault(part_of[test], []).append(test)
    return [made[n] for n in sorted(made)]
