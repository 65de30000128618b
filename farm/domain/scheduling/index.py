"""Everything that waits and every device, kept so that one change is planned without looking at the rest.

Jobs that are alike for the planner (same wishes, class, team, quotas, devices to avoid) form a *group*; a group is in
order of age, so only its head competes. Between two plans no idle device is wanted by a job that may have it; hence
after a change only the groups that it touches can start anything: they are marked *dirty*, and `decide` looks at them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

from farm.domain.devices import Availability
from farm.domain.scheduling import order
from farm.domain.scheduling.fleet import Fleet
from farm.domain.scheduling.order import Flow
from farm.domain.scheduling.values import (
    Arrived,
    DeviceForgotten,
    DeviceSeen,
    Event,
    Key,
    Left,
    PlannedDevice,
    Shares,
    SharesChanged,
    WaitingJob,
)

#: What a job wants: the one device, or selectors by their texts.
Wish = tuple[int | None, tuple[str, ...]]
#: What else makes jobs alike: class, team, quotas, devices to avoid.
Kind = tuple[str, str, tuple[str, ...], frozenset[int]]
#: A job in its group's order: since when it counts as queued (ms), its key.
Place = tuple[int, Key]


@dataclass(slots=True, eq=False)
class Group:
    """Jobs that are alike for the planner, the oldest first."""

    demand: Demand
    klass: str
    team: str
    accounts: tuple[str, ...]
    avoid: frozenset[int]
    places: list[Place] = field(default_factory=list)

    @property
    def flow(self) -> Flow:
        return self.team, self.klass


@dataclass(slots=True, eq=False)
class Demand:
    """One wish: the devices that meet it, how much work waits for them, and the groups of those who have it."""

    job: WaitingJob  # one of them
    fits: int
    work_ms: int = 0
    jobs: int = 0
    groups: dict[Kind, Group] = field(default_factory=dict)

    def group(self, kind: Kind) -> Group:
        """The group of these jobs; an empty one when there is none yet."""
        return self.groups.get(kind) or Group(self, *kind)

    def copy(self) -> Demand:
        made = Demand(self.job, self.fits, self.work_ms, self.jobs)
        for kind, group in self.groups.items():
            made.groups[kind] = Group(made, *kind, list(group.places))
        return made


def wish_of(job: WaitingJob) -> Wish:
    return (job.pinned, ()) if job.pinned is not None else (None, tuple(sorted({s.text for s in job.wants})))


def kind_of(job: WaitingJob) -> Kind:
    return job.klass, job.team, job.accounts, job.avoid


def place_of(job: WaitingJob) -> Place:
    return order.queued_ms(job.klass, job.queued_at, job.estimate_s), job.key


class Index:
    """Owned by one planner: `update` changes it in place. `now` is the time of its last change."""

    def __init__(self, now: datetime, shares: Shares | None = None) -> None:
        self.now = now
        self.shares = shares or Shares()
        self.fleet = Fleet()
        self.jobs: dict[Key, WaitingJob] = {}
        self.demands: dict[Wish, Demand] = {}
        self.shared: dict[Wish, Demand] = {}  # those of them that name no single device
        self.clocks: dict[Flow, int] = {}
        self.flows: Counter[Flow] = Counter()
        self.later: list[tuple[int, Key]] = []  # (not before, ms)
        self.retries: set[Key] = set()
        self._dirty: set[Group] = set()

    def copy(self) -> Index:
        """One that can be changed without changing this one."""
        made = Index(self.now, self.shares)
        made.fleet, made.jobs = self.fleet.copy(), dict(self.jobs)
        made.demands = {wish: demand.copy() for wish, demand in self.demands.items()}
        made.shared = {wish: made.demands[wish] for wish in self.shared}
        made.clocks, made.flows = dict(self.clocks), self.flows.copy()
        made.later, made.retries = list(self.later), set(self.retries)
        if self._dirty:
            made._dirty.update(made.all_groups())
        return made

    def update(self, event: Event, now: datetime) -> None:
        """Take a change in; nothing is decided yet."""
        self.now = max(now, self.now)
        match event:
            case Arrived(job):
                self._leave(job.key)
                self._arrive(job)
            case Left(key):
                self._leave(key)
            case DeviceSeen(device):
                self._see(device)
            case DeviceForgotten(device_id):
                self._forget(device_id)
            case SharesChanged(shares):
                self.shares = shares
                self._dirty.update(self.all_groups())
        self._wake_due()

    def take_dirty(self) -> list[Group]:
        """The groups in which something may start now; they are clean again."""
        found = [group for group in self._dirty if group.places]
        self._dirty.clear()
        return found

    def fits(self, group: Group) -> int:
        """The devices that a group waits for: those to avoid only when no other one is usable."""
        fits = group.demand.fits
        if not group.avoid:
            return fits
        others = fits & ~self.fleet.set_of(group.avoid)
        return others if others & self.fleet.usable else fits

    def demand_of(self, job: WaitingJob) -> Demand:
        return self.demands[wish_of(job)]

    def group_of(self, job: WaitingJob) -> Group:
        """The group that a waiting job belongs to (or would, while it may not start yet)."""
        return self.demand_of(job).group(kind_of(job))

    def all_groups(self) -> list[Group]:
        return [group for demand in self.demands.values() for group in demand.groups.values()]

    def pressures_ms(self, devices: list[PlannedDevice]) -> dict[int, int]:
        """Device id -> the work that waits for it, every wish shared out evenly between those who meet it."""
        usable = self.fleet.usable
        shared = [
            (demand.fits, demand.work_ms // max(1, (demand.fits & usable).bit_count()))
            for demand in self.shared.values()
        ]
        made = {}
        for device in devices:
            bit, own = self.fleet.bit_of[device.id], self.demands.get((device.id, ()))
            made[device.id] = sum(part for fits, part in shared if fits & bit) + (own.work_ms if own else 0)
        return made

    def start(self, job: WaitingJob, device: PlannedDevice) -> None:
        """A grant: the job waits no more, the device is held."""
        self._leave(job.key)
        held = replace(device, state=Availability.RUNNING, why="granted", holder=f"{job.kind}:{job.id}", until=None)
        self._see(replace(held, accounts=job.accounts))

    def remove(self, key: Key) -> None:
        self._leave(key)

    def _arrive(self, job: WaitingJob) -> None:
        self.jobs[job.key] = job
        wish = wish_of(job)
        demand = self.demands.get(wish)
        if demand is None:
            demand = self.demands[wish] = Demand(job, self._fits(job))
            if job.pinned is None:
                self.shared[wish] = demand
        demand.jobs += 1
        demand.work_ms += order.estimate_ms(job.estimate_s)
        self.flows[job.team, job.klass] += 1
        if job.lost_at is not None:
            self.retries.add(job.key)
        if job.not_before is not None and job.not_before > self.now:
            insort(self.later, (order.ms(job.not_before), job.key))
        else:
            self._queue(job)

    def _queue(self, job: WaitingJob) -> None:
        demand = self.demand_of(job)
        group = demand.group(kind_of(job))
        demand.groups[kind_of(job)] = group
        insort(group.places, place_of(job))
        self._dirty.add(group)

    def _leave(self, key: Key) -> None:
        job = self.jobs.pop(key, None)
        if job is None:
            return
        flow = (job.team, job.klass)
        self.flows[flow] -= 1
        if self.flows[flow] == 0:
            del self.flows[flow]
        self.retries.discard(key)
        wish = wish_of(job)
        demand = self.demands[wish]
        demand.jobs -= 1
        demand.work_ms -= order.estimate_ms(job.estimate_s)
        if job.not_before is None or not _take(self.later, (order.ms(job.not_before), key)):
            group = demand.groups[kind_of(job)]
            _take(group.places, place_of(job))
            if not group.places:
                del demand.groups[kind_of(job)]
        if demand.jobs == 0:
            del self.demands[wish]
            self.shared.pop(wish, None)

    def _wake_due(self) -> None:
        now = order.ms(self.now)
        while self.later and self.later[0][0] <= now:
            self._queue(self.jobs[self.later.pop(0)[1]])

    def _see(self, device: PlannedDevice) -> None:
        before = self.fleet.devices.get(device.id)
        if before == device:
            return
        if before is not None and before.facts != device.facts:
            self._dirty_around(device.id)  # whoever wanted it as it was may now have to take another
        if self.fleet.put(device):
            self._fit_again()
            self._dirty_around(device.id)
        elif before is None or (device.idle and not before.idle) or before.usable != device.usable:
            self._dirty_around(device.id)  # one that is taken starts nothing
        if before is not None and before.holder is not None and before.holder != device.holder:
            self._dirty_accounts(before.accounts)

    def _forget(self, device_id: int) -> None:
        before = self.fleet.devices.get(device_id)
        if before is None:
            return
        self._dirty_around(device_id)
        self._dirty_accounts(before.accounts)
        self.fleet.drop(device_id)
        self._fit_again()

    def _dirty_around(self, device_id: int) -> None:
        """Whoever wants the device."""
        bit = self.fleet.bit_of[device_id]
        own = self.demands.get((device_id, ()))
        for demand in (*self.shared.values(), *([own] if own is not None else ())):
            if demand.fits & bit:
                self._dirty.update(demand.groups.values())

    def _dirty_accounts(self, accounts: tuple[str, ...]) -> None:
        """Whoever counts against a quota that has room again."""
        limited = {account for account in accounts if account in self.shares.limits}
        if limited:
            self._dirty.update(group for group in self.all_groups() if limited.intersection(group.accounts))

    def _fits(self, job: WaitingJob) -> int:
        if job.pinned is not None:
            return self.fleet.bit_of.get(job.pinned, 0)
        mask = -1
        for selector in job.wants:
            mask &= self.fleet.picked_by(selector)
        return self.fleet.set_of(list(self.fleet.devices)) if mask == -1 else mask

    def _fit_again(self) -> None:
        for demand in self.demands.values():
            demand.fits = self._fits(demand.job)


def _take(places: list[tuple[int, Key]], place: tuple[int, Key]) -> bool:
    """Take `place` out of a sorted list; False when it is not there."""
    at = bisect_left(places, place)
    if at < len(places) and places[at] == place:
        del places[at]
        return True
    return False
