"""Folding events equals planning from scratch, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from farm.domain.devices import Availability
from farm.domain.scheduling import (
    Arrived,
    DeviceForgotten,
    DeviceSeen,
    Event,
    Key,
    Left,
    PlannedDevice,
    Shares,
    SharesChanged,
    TimePassed,
    WaitingJob,
    apply,
    build,
    plan,
)
from farm.domain.scheduling.index import wish_of
from tests.domain import scheduling_cases as cases


class FoldedAndFresh(RuleBasedStateMachine):
    """One index that hears of every change, beside a plain list of what there is that is planned anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = cases.NOW
        self.devices: dict[int, PlannedDevice] = {}
        self.jobs: dict[Key, WaitingJob] = {}
        self.shares = Shares()
        self.clocks: dict[tuple[str, str], int] = {}
        self.folded = build(self.now, [], [])

    def happens(self, event: Event) -> None:
        fresh, expected = plan(self.now, self.devices.values(), self.jobs.values(), self.shares, self.clocks)
        self.folded, found = apply(self.folded, event, self.now)
        assert found == expected
        assert self.folded.clocks == fresh.clocks
        self.clocks = dict(fresh.clocks)
        for grant in found.grants:
            job, device = self.jobs.pop(grant.key), self.devices[grant.device_id]
            self.devices[device.id] = replace(
                device, state=Availability.RUNNING, why="granted", holder=f"{job.kind}:{job.id}", accounts=job.accounts
            )
        for over in found.give_ups:
            del self.jobs[over.kind, over.id]

    @initialize()
    def begins_with_a_quota_that_holds_jobs_back_and_busy_devices(self) -> None:
        self.shares_change(Shares(limits={"team:x": 1}))
        for device_id, soc, accounts in ((1, "A", ("team:x",)), (2, "A", ()), (3, "B", ())):
            self.is_seen(cases.device(device_id, soc, holder="attempt:1", accounts=accounts))
        self.is_seen(cases.device(4, "B"))  # idle, and only the quota keeps these from it
        self.arrive([(cases.job(number, "soc=B", accounts=("team:x",), team="x"), None) for number in (41, 42)])
        assert self.folded.fleet.devices[4].idle
        assert len(self.folded.jobs) == 2

    @rule(jobs=st.lists(st.tuples(cases.jobs, st.sampled_from([None, None, 5, 50])), min_size=1, max_size=4))
    def arrive(self, jobs: list[tuple[WaitingJob, int | None]]) -> None:
        for job, delay_s in jobs:
            later = None if delay_s is None else self.now + timedelta(seconds=delay_s)
            job = replace(job, not_before=later)
            self.jobs[job.key] = job
            self.happens(Arrived(job))

    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([*sorted(self.jobs), ("job", 999)]))
        self.jobs.pop(key, None)
        self.happens(Left(key))

    @rule(device=cases.devices)
    def is_seen(self, device: PlannedDevice) -> None:
        self.devices[device.id] = device
        self.happens(DeviceSeen(device))

    @rule(data=st.data())
    def becomes_free(self, data: st.DataObject) -> None:
        busy = sorted(d.id for d in self.devices.values() if d.holder)
        if busy:
            self.ends(data.draw(st.sampled_from(busy)))

    @rule()
    def all_become_free(self) -> None:
        for device_id in sorted(d.id for d in self.devices.values() if d.holder):
            self.ends(device_id)

    def ends(self, device_id: int) -> None:
        device = self.devices[device_id]
        if device.holder:  # it may have been given out anew meanwhile: that holder goes on
            free = replace(device, state=Availability.READY, why="ready", holder=None, accounts=(), hold=None)
            self.devices[device_id] = free
            self.happens(DeviceSeen(free))

    @rule(data=st.data())
    def passes_to_who_counts_elsewhere(self, data: st.DataObject) -> None:
        """The quota has room again though the device is as busy as before."""
        counted = sorted(d.id for d in self.devices.values() if d.holder and d.accounts)
        if counted:
            device = replace(
                self.devices[data.draw(st.sampled_from(counted))], holder="reservation:9", why="", accounts=()
            )
            self.devices[device.id] = device
            self.happens(DeviceSeen(device))

    @rule(how=st.sampled_from(["forgotten", "paused", "another"]))
    def the_better_device_goes(self, how: str) -> None:
        """Who avoids one device waits for another; when that one goes, the avoided one will do."""
        busy = cases.device(9, "C", holder="attempt:1")
        self.is_seen(busy)
        self.arrive([(cases.job(50, "soc=C", avoid=frozenset([8])), None)])
        self.is_seen(cases.device(8, "C"))
        if how == "forgotten":
            del self.devices[9]
            self.happens(DeviceForgotten(9))
        else:
            self.is_seen(replace(busy, hold="paused") if how == "paused" else cases.device(9, "E", holder="attempt:1"))

    @rule()
    def the_only_device_goes(self) -> None:
        """A retry that has waited long gives up with it."""
        self.is_seen(cases.device(10, "D", holder="attempt:1"))
        self.arrive([(cases.job(51, "soc=D", lost_at=cases.NOW - timedelta(hours=1)), None)])
        del self.devices[10]
        self.happens(DeviceForgotten(10))

    @rule(data=st.data())
    def is_forgotten(self, data: st.DataObject) -> None:
        if len(self.devices) > 3:
            device_id = data.draw(st.sampled_from(sorted(self.devices)))
            del self.devices[device_id]
            self.happens(DeviceForgotten(device_id))

    @rule(shares=cases.shares)
    def shares_change(self, shares: Shares) -> None:
        self.shares = shares
        self.happens(SharesChanged(shares))

    @rule(seconds=st.sampled_from([1, 9, 60, 3600]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.happens(TimePassed())

    @invariant()
    def both_know_the_same(self) -> None:
        assert self.folded.jobs == self.jobs
        assert {d.id: (d.idle, d.holder) for d in self.folded.fleet.devices.values()} == {
            d.id: (d.idle, d.holder) for d in self.devices.values()
        }
        assert self.folded.demands.keys() == {wish_of(job) for job in self.jobs.values()}
        unpinned = {wish: demand for wish, demand in self.folded.demands.items() if wish[0] is None}
        assert self.folded.shared == unpinned  # nothing is kept of those who have gone
        queued = sum(len(group.places) for group in self.folded.all_groups())
        assert queued + len(self.folded.later) == len(self.jobs)


def test_time_that_is_told_late_turns_no_clock_back() -> None:
    index, _ = apply(build(cases.NOW, [], []), TimePassed(), cases.NOW + timedelta(seconds=9))
    assert apply(index, TimePassed(), cases.NOW)[0].now == cases.NOW + timedelta(seconds=9)


FoldedAndFresh.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestFoldedAndFresh = FoldedAndFresh.TestCase
