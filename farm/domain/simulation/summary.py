"""What came out of a simulation, in figures: how long all of it took, and who waited how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from farm.domain.durations import quantile
from farm.domain.jobs import HANDICAP_S
from farm.domain.simulation.engine import Ran
from farm.domain.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Result:
    """A scenario, and what came to its end or was cut off."""

    scenario: Scenario
    schedule: Sequence[Ran]
    lost: Sequence[Ran]

    def document(self) -> dict[str, Any]:
        """As JSON: `{"schedule": […], "lost": […], "summary": {…}}`."""
        return {
            "schedule": [self._entry(ran) for ran in self.schedule],
            "lost": [self._entry(ran) for ran in self.lost],
            "summary": summarise(self),
        }

    def _entry(self, ran: Ran) -> dict[str, Any]:
        return {
            "job": self.scenario.jobs[ran.job].name,
            "device": self.scenario.devices[ran.device].name,
            "start_s": ran.start_s,
            "end_s": ran.end_s,
        }


def summarise(result: Result) -> dict[str, Any]:
    """Makespan (s), how much of the devices' time was used, waits (s) of all, by class and by team.

    A wait lasts from submission to the start of the run that came to its end. Nothing to measure is null.
    """
    jobs, devices = result.scenario.jobs, result.scenario.devices
    by_class: dict[str, list[float]] = defaultdict(list)
    by_team: dict[str, list[float]] = defaultdict(list)
    waits = []
    for ran in result.schedule:
        job = jobs[ran.job]
        waits.append(ran.start_s - job.submit_s)
        by_class[job.klass].append(waits[-1])
        by_team[job.team].append(waits[-1])
    makespan = max((ran.end_s for ran in result.schedule), default=None)
    busy = sum(ran.end_s - ran.start_s for ran in (*result.schedule, *result.lost))
    return {
        "jobs": len(jobs),
        "devices": len(devices),
        "makespan_s": makespan,
        "busy": round(busy / (makespan * len(devices)), 4) if makespan and devices else None,
        "lost": len(result.lost),
        "wait_s": _spread(waits),
        "wait_s_by_class": {klass: _spread(by_class[klass]) for klass in HANDICAP_S if klass in by_class},
        "wait_s_by_team": {team: _spread(by_team[team]) for team in sorted(by_team)},
    }


def _spread(values: Iterable[float]) -> dict[str, float | int | None]:
    found = list(values)
    if not found:
        return {"n": 0, "p50": None, "p95": None, "max": None}
    return {
        "n": len(found),
        "p50": round(quantile(found, 0.5), 3),
        "p95": round(quantile(found, 0.95), 3),
        "max": round(max(found), 3),
    }
