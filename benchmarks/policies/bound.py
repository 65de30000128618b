"""A makespan that no schedule can beat: work that has to be done on some devices, divided by how many those are.

For every set S of devices that is a union of what selectors pick, and every moment t: jobs submitted at t or later that
can run on devices of S alone need at least `t + work / |S|`, even if they could be split at will. No job ends before
its submission plus its duration either. (For splittable jobs released together this is exact: max-flow, min-cut.)
"""

from __future__ import annotations

from collections.abc import Mapping

from farm.domain.simulation import Scenario

#: More distinct selectors than this are not combined: single ones, and all of them together, are a bound as well.
_MAX_COMBINED = 12


def lower_bound(scenario: Scenario) -> float:
    picks: dict[str, frozenset[int]] = {}
    for job in scenario.jobs:
        if job.selector.text not in picks:
            fits = frozenset(n for n, d in enumerate(scenario.devices) if job.selector.matches(d.facts))
            picks[job.selector.text] = fits
    jobs = sorted(scenario.jobs, key=lambda j: -j.submit_s)
    best = max((job.submit_s + job.duration_s for job in jobs), default=0.0)
    for union in _unions(picks):
        inside = {text for text, fits in picks.items() if fits <= union}
        work = 0.0
        for job in jobs:  # latest first: work released at or after job.submit_s
            if job.selector.text in inside:
                work += job.duration_s
                best = max(best, job.submit_s + work / len(union))
    return best


def _unions(picks: Mapping[str, frozenset[int]]) -> set[frozenset[int]]:
    single = set(picks.values())
    if len(single) > _MAX_COMBINED:
        return {*single, frozenset().union(*single)}
    found: set[frozenset[int]] = set()
    for fits in single:
        found |= {fits | other for other in found} | {fits}
    return found
