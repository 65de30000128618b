"""Who decides in a simulation: the farm's own plan, behind a seam that other rules can stand in for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from farm.domain.devices import Availability
from farm.domain.scheduling import Arrived, DeviceSeen, Index, PlannedDevice, Shares, WaitingJob, decide
from farm.domain.simulation.scenario import SimDevice, SimJob

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Policy(Protocol):
    """Hears what happens, and says who starts where. Jobs and devices are named by their numbers in the scenario."""

    def arrives(self, now_s: float, job: int, avoid: frozenset[int]) -> None:
        """The job waits: it is new, or lost the devices of `avoid` (then it keeps its old place)."""

    def is_free(self, now_s: float, device: int) -> None:
        """Nobody holds the device, and it works."""

    def is_away(self, now_s: float, device: int) -> None:
        """The device has failed; whatever ran there arrives again."""

    def decide(self, now_s: float) -> Sequence[tuple[int, int]]:
        """(job, device) of everything that starts now."""


class FarmPolicy:
    """The plan that the farm itself runs by."""

    def __init__(
        self, devices: Sequence[SimDevice], jobs: Sequence[SimJob], weights: Mapping[str, float] | None = None
    ) -> None:
        self._jobs = jobs
        self._index = Index(_EPOCH, Shares(weights or {}))
        self._devices = [
            PlannedDevice(n, d.name, d.facts, Availability.READY, "ready", type=d.facts.get("type"))
            for n, d in enumerate(devices)
        ]
        for device in self._devices:
            self._index.update(DeviceSeen(device), _EPOCH)

    def arrives(self, now_s: float, job: int, avoid: frozenset[int]) -> None:
        entry = self._jobs[job]
        waiting = WaitingJob(
            id=job,
            klass=entry.klass,
            queued_at=_at(entry.submit_s),
            wants=(entry.selector,),
            team=entry.team,
            avoid=avoid,
            estimate_s=entry.estimate_s,
        )
        self._index.update(Arrived(waiting), _at(now_s))

    def is_free(self, now_s: float, device: int) -> None:
        self._index.update(DeviceSeen(self._devices[device]), _at(now_s))

    def is_away(self, now_s: float, device: int) -> None:
        gone = replace(self._devices[device], state=Availability.GONE, why="it failed")
        self._index.update(DeviceSeen(gone), _at(now_s))

    def decide(self, now_s: float) -> list[tuple[int, int]]:
        self._index.now = _at(now_s)
        return [(grant.id, grant.device_id) for grant in decide(self._index).grants]


def _at(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
