"""The planner's index, kept in step with the database: built from every row once, then from what changed alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from farm.domain.scheduling import Arrived, DeviceForgotten, DeviceSeen, Index, Key, Left, TimePassed, WaitingJob
from farm.store import queue
from farm.store.bus import Change
from farm.store.queue import Broken

#: Changes that concern everything: quotas and weights stand in too many places to follow.
_ALL = frozenset({"team", "token"})
#: Changes that the planner follows.
TOPICS = frozenset({"run", "job", "device", "attempt", "reservation", "hold"}) | _ALL


@dataclass(slots=True)
class Heard:
    """What has changed since the last look."""

    jobs: set[int] = field(default_factory=set)
    runs: set[int] = field(default_factory=set)
    reservations: bool = False
    everything: bool = False

    def take(self, changes: Iterable[Change]) -> bool:
        """Note what concerns the planner; False when nothing does."""
        found = [change for change in changes if change.topic in TOPICS]
        for change in found:
            if change.topic == "job":
                self.jobs.add(int(change.ref))
            elif change.topic == "run":
                self.runs.add(int(change.ref))
            elif change.topic == "reservation":
                self.reservations = True
            elif change.topic in _ALL:
                self.everything = True
        return bool(found)


class Mirror:
    """The index, the jobs that cannot be planned, and who has come to wait since `arrived` was last emptied."""

    def __init__(self, now: datetime) -> None:
        self.index = Index(now)
        self.broken: dict[int, Broken] = {}
        self.arrived: set[Key] = set()
        self._quotas = queue.Limits()

    def rebuild(self, session: Session, now: datetime) -> None:
        """Read everything anew."""
        before = self.index.jobs
        self._quotas = queue.limits(session)
        self.index, broken = queue.index(session, now)
        self.broken = {entry.job_id: entry for entry in broken}
        self.arrived |= {key for key, job in self.index.jobs.items() if before.get(key) != job}

    def catch_up(self, session: Session, now: datetime, heard: Heard) -> None:
        """Take in what was heard of, and every device: silence, heat and charge change without a word.

        While nothing waits nobody asks how the devices are.
        """
        if heard.everything:
            self.rebuild(session, now)
            return
        self.index.update(TimePassed(), now)
        if heard.jobs or heard.runs:
            self._jobs(session, now, heard)
        if heard.reservations:
            known = {key: job for key, job in self.index.jobs.items() if key[0] == "reservation"}
            self._replace(known, queue.waiting_reservations(session, now, self._quotas), now)
        if self.index.jobs:
            self._devices(session, now)

    def _devices(self, session: Session, now: datetime) -> None:
        seen = queue.planned_devices(session, now, self._quotas)
        for device_id in set(self.index.fleet.devices) - {device.id for device in seen}:
            self.index.update(DeviceForgotten(device_id), now)
        for device in seen:
            self.index.update(DeviceSeen(device), now)

    def _jobs(self, session: Session, now: datetime, heard: Heard) -> None:
        found, broken = queue.waiting_jobs(session, self._quotas, jobs=heard.jobs, runs=heard.runs)
        known = {key: job for i in heard.jobs if (job := self.index.jobs.get(key := ("job", i))) is not None}
        for job_id in heard.jobs:
            self.broken.pop(job_id, None)
        self.broken |= {entry.job_id: entry for entry in broken}
        self._replace(known, found, now)

    def _replace(self, known: dict[Key, WaitingJob], found: list[WaitingJob], now: datetime) -> None:
        for key in set(known) - {job.key for job in found}:
            self.index.update(Left(key), now)
        for job in found:
            if self.index.jobs.get(job.key) != job:
                self.index.update(Arrived(job), now)
                self.arrived.add(job.key)
