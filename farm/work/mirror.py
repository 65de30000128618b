"""The planner's index, kept in step with the database: built from every row once, then from what changed alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from farm.domain.scheduling import Arrived, DeviceForgotten, DeviceSeen, Index, Key, Left, TimePassed, WaitingJob
from farm.store import queue
from farm.store.bus import Change
from farm.store.queue import Broken

#: Changes that concern everything: quotas and weights stand in too many places to follow.
_ALL = frozenset({"team", "token"})
#: Changes that the planner follows.
TOPICS = frozenset({"run", "job", "device", "attempt", "reservation", "hold"}) | _ALL
#: Every device is looked at so often.
LOOK_EVERY = timedelta(seconds=1)


@dataclass(slots=True)
class Heard:
    """What has changed since the last look."""

    jobs: set[int] = field(default_factory=set)
    runs: set[int] = field(default_factory=set)
    devices: set[int] = field(default_factory=set)
    fleet: bool = False  # something about devices, whichever
    reservations: set[int] = field(default_factory=set)
    everything: bool = False

    def take(self, changes: Iterable[Change]) -> bool:
        """Note what concerns the planner; False when nothing does."""
        found = [change for change in changes if change.topic in TOPICS]
        for change in found:
            if change.topic == "job":
                self.jobs.add(int(change.ref))
            elif change.topic == "run":
                self.runs.add(int(change.ref))
            elif change.topic == "device":
                self.devices.add(int(change.ref))
            elif change.topic == "hold":
                self.fleet = True
            elif change.topic == "reservation":
                self.reservations.add(int(change.ref))
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
        self._changed: set[int] = set()  # devices that were heard of and not looked at since
        self._looked_at: datetime | None = None  # at every device

    def rebuild(self, session: Session, now: datetime) -> None:
        """Read everything anew."""
        before = self.index.jobs
        self._quotas = queue.limits(session)
        self.index, broken = queue.index(session, now)
        self._changed, self._looked_at = set(), now
        self.broken = {entry.job_id: entry for entry in broken}
        self.arrived |= {key for key, job in self.index.jobs.items() if before.get(key) != job}

    def catch_up(self, session: Session, now: datetime, heard: Heard) -> None:
        """Take in what was heard of, and now and then every device: silence, heat and charge change without a word.

        While nothing waits nobody asks how the devices are.
        """
        if heard.everything:
            self.rebuild(session, now)
            return
        self.index.update(TimePassed(), now)
        if heard.jobs or heard.runs:
            self._jobs(session, now, heard)
        if heard.reservations:
            keys = [("reservation", ident) for ident in heard.reservations]
            known = {key: job for key in keys if (job := self.index.jobs.get(key)) is not None}
            self._replace(known, queue.waiting_reservations(session, now, self._quotas, heard.reservations), now)
        self._changed |= heard.devices
        if heard.fleet:
            self._looked_at = None
        if not self.index.jobs:
            return
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            self._devices(session, now, None)
        elif self._changed:
            self._devices(session, now, self._changed)
        self._changed = set()

    def _devices(self, session: Session, now: datetime, ids: set[int] | None) -> None:
        """Look at these devices; None: at all."""
        seen = queue.planned_devices(session, now, self._quotas, ids)
        for device_id in (set(self.index.fleet.devices) if ids is None else ids) - {device.id for device in seen}:
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
