"""One pass: which of the groups that may have become startable start now, and on which device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from farm.domain.scheduling import order
from farm.domain.scheduling.fleet import bits
from farm.domain.scheduling.index import Group, Index
from farm.domain.scheduling.values import Decisions, GiveUp, Grant, Key, PlannedDevice, WaitingJob

#: A retry waits so long for a device that does not come back.
GIVE_UP_AFTER = timedelta(minutes=2)


def decide(index: Index, give_up_after: timedelta = GIVE_UP_AFTER) -> Decisions:
    """Grant what can be granted; the index is left as if every grant had been carried out."""
    idle = index.fleet.idle
    dirty = index.take_dirty()
    wanting = [(group, fits) for group in dirty if (fits := index.fits(group)) & idle] if idle else []
    grants = _Pass(index, wanting).run() if wanting else ()
    over = tuple(
        GiveUp(job.kind, job.id, gone_words(index, job, give_up_after))
        for key in sorted(index.retries)
        if gives_up(index, job := index.jobs[key], index.now, give_up_after)
    )
    for entry in over:
        index.remove((entry.kind, entry.id))
    return Decisions(tuple(grants), over)


def gives_up(index: Index, job: WaitingJob, now: datetime, after: timedelta) -> bool:
    if job.lost_at is None or now - job.lost_at < after:
        return False
    return not index.demand_of(job).fits & ~index.fleet.away


def gone_words(index: Index, job: WaitingJob, after: timedelta) -> str:
    names = ", ".join(d.name for d in index.fleet.of(index.demand_of(job).fits)[:3]) or "no matching device"
    return f"{names} did not come back within {after.total_seconds():g} s"


class Claims:
    """The claims of groups as they stand before a pass; a grant moves its flow's clock on."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._usable = index.fleet.usable
        self._devices = self._usable.bit_count()
        self._entitled = order.entitlements(index.flows, index.shares.weights)
        self.clocks = dict(index.clocks)
        self._known: dict[tuple[str, int], int] = {}

    def of(self, group: Group, flexibility: int, place: int) -> int:
        """The claim of the job at `place` of the group."""
        return order.claim_ms(group.places[place][0], self.clocks.get(group.flow, 0), group.klass) + flexibility

    def flexibility(self, group: Group, fits: int) -> int:
        key = (group.klass, fits)
        found = self._known.get(key)
        if found is None:
            count = (fits & self._usable).bit_count()
            found = self._known[key] = order.flexibility_ms(group.klass, count, self._devices)
        return found

    def charge(self, group: Group, queued: int, cost: int) -> None:
        flow = group.flow
        before = self.clocks.get(flow, 0)
        self.clocks[flow] = order.moved_clock(before, queued, cost, self._entitled[flow], self._devices)


class _Pass:
    """Groups compete by their heads' claims. Claims only grow, so a stale one is noticed when it comes up."""

    def __init__(self, index: Index, wanting: Sequence[tuple[Group, int]]) -> None:
        self._index = index
        self._claims = Claims(index)
        self._held = dict(index.fleet.held)
        self._shelf = _Shelf(index, {fits & index.fleet.idle for _, fits in wanting})
        self._groups = [group for group, _ in wanting]
        self._open = [self._shelf.ranked(fits & index.fleet.idle) for _, fits in wanting]
        self._next = [0] * len(wanting)
        self._flexibility = [self._claims.flexibility(group, fits) for group, fits in wanting]

    def run(self) -> list[Grant]:
        index = self._index
        started: list[tuple[WaitingJob, PlannedDevice]] = []
        heap = [self._entry(n) for n in range(len(self._groups))]
        heapify(heap)
        while heap and self._shelf.free:
            entry = heappop(heap)
            n = entry[2]
            if not self._open[n] & self._shelf.free or self._is_full(self._groups[n]):
                continue
            now = self._entry(n)
            if now != entry:
                heappush(heap, now)
                continue
            group = self._groups[n]
            queued, key = group.places[self._next[n]]
            job = index.jobs[key]
            started.append((job, self._shelf.take(self._open[n], job.bundle)))
            self._claims.charge(group, queued, order.estimate_ms(job.estimate_s))
            for account in job.accounts:
                self._held[account] = self._held.get(account, 0) + 1
            self._next[n] += 1
            if self._next[n] < len(group.places):
                heappush(heap, self._entry(n))
        index.clocks = self._claims.clocks
        for job, device in started:
            index.start(job, device)
        return [Grant(job.kind, job.id, device.id, job.estimate_s) for job, device in started]

    def _entry(self, n: int) -> tuple[int, tuple[int, Key], int]:
        place = self._next[n]
        return self._claims.of(self._groups[n], self._flexibility[n], place), self._groups[n].places[place], n

    def _is_full(self, group: Group) -> bool:
        limits = self._index.shares.limits
        return any(a in limits and self._held.get(a, 0) >= limits[a] for a in group.accounts)


class _Shelf:
    """The idle devices in the order in which they are given out.

    First those that the least other work waits for; among equals the one that has the bundle already, then of the type
    that there is most of, the coolest, the one with the fewest recent infrastructure errors, the least worn.
    """

    def __init__(self, index: Index, wanted: Collection[int]) -> None:
        union = 0
        for fits in wanted:
            union |= fits
        devices = [index.fleet.device_at(bit) for bit in bits(union)]
        pressure = index.pressures_ms(devices)
        self._order = sorted(devices, key=lambda d: (pressure[d.id], *_cost(index, d)))
        self.free = (1 << len(self._order)) - 1
        self._having: dict[str, int] = {}
        alike: dict[int, int] = {}
        for rank, device in enumerate(self._order):
            alike[pressure[device.id]] = alike.get(pressure[device.id], 0) | 1 << rank
            if device.bundle is not None:
                self._having[device.bundle] = self._having.get(device.bundle, 0) | 1 << rank
        self._equals = [alike[pressure[device.id]] for device in self._order]
        self._rank = {index.fleet.bit_of[device.id]: 1 << rank for rank, device in enumerate(self._order)}
        self._known: dict[int, int] = {}

    def ranked(self, fits: int) -> int:
        """The same set, its bits in the order of the shelf."""
        found = self._known.get(fits)
        if found is None:
            found = 0
            for bit in bits(fits):
                found |= self._rank[bit]
            self._known[fits] = found
        return found

    def take(self, ranked: int, bundle: str | None) -> PlannedDevice:
        open_ = ranked & self.free
        best = open_ & -open_
        if bundle is not None:
            there = open_ & self._equals[best.bit_length() - 1] & self._having.get(bundle, 0)
            best = there & -there or best
        self.free &= ~best
        return self._order[best.bit_length() - 1]


def _cost(index: Index, device: PlannedDevice) -> tuple[int, float, int, float, int]:
    heat = 30.0 if device.temperature_c is None else device.temperature_c  # not measured: neither hot nor cold
    return -index.fleet.types[device.type], heat, device.infra_errors, device.used_s, device.id
