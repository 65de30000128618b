"""plan(): class, share and age; scarce devices; affinity; quotas; holds; and nothing starves."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.domain.devices import Availability
from farm.domain.jobs import HANDICAP_S
from farm.domain.scheduling import (
    Arrived,
    DeviceSeen,
    PlannedDevice,
    Shares,
    TimePassed,
    WaitingJob,
    apply,
    build,
    decide,
    plan,
)
from farm.domain.scheduling.order import PATIENCE_S
from tests.domain.scheduling_cases import NOW, device, fleets, granted, job, queues, shares

HOUR = 3600.0


def test_the_oldest_job_of_a_class_comes_first() -> None:
    assert granted(plan(NOW, [device(1)], [job(1, age_s=10), job(2, age_s=20)])[1]) == {2: 1}


def test_a_class_goes_before_the_next_one_until_that_has_waited_long_enough() -> None:
    ranking = ["debug", "pr", "manual", "nightly"]
    for first, second in pairwise(ranking):
        patience = HANDICAP_S[second] - HANDICAP_S[first]
        young = job(2, klass=second, age_s=patience - 1, estimate_s=0.0)
        old = job(2, klass=second, age_s=patience + 1, estimate_s=0.0)
        assert granted(plan(NOW, [device(1)], [young, job(1, klass=first)])[1]) == {1: 1}
        assert granted(plan(NOW, [device(1)], [old, job(1, klass=first)])[1]) == {2: 1}


def test_the_longest_nightly_job_goes_before_its_like_and_after_what_people_wait_for() -> None:
    short, long = job(1, klass="nightly", age_s=600, estimate_s=60.0), job(2, klass="nightly", estimate_s=3000.0)
    assert granted(plan(NOW, [device(1)], [short, long])[1]) == {2: 1}
    assert granted(plan(NOW, [device(1)], [long, job(3)])[1]) == {3: 1}
    never_seen = job(4, klass="nightly")
    assert granted(plan(NOW, [device(1)], [short, never_seen])[1]) == {4: 1}
    assert granted(plan(NOW, [device(1)], [never_seen, job(3)])[1]) == {3: 1}


def test_a_device_wanted_by_few_goes_to_those_few() -> None:
    found = plan(NOW, [device(1, "rare"), device(2, "A")], [job(1, "*", age_s=50), job(2, "soc=rare")])[1]
    assert granted(found) == {1: 2, 2: 1}


def test_a_scarce_device_that_becomes_free_goes_to_who_can_use_no_other() -> None:
    devices = [device(1, "rare"), *(device(n, holder="attempt:1") for n in range(2, 9))]
    assert granted(plan(NOW, devices, [job(1, "*", age_s=600), job(2, "soc=rare")])[1]) == {2: 1}
    assert granted(plan(NOW, devices, [job(1, "*", age_s=2 * HOUR), job(2, "soc=rare")])[1]) == {1: 1}  # not for ever


def test_without_other_wishes_the_type_that_there_is_most_of_is_taken_first() -> None:
    devices = [device(1, type="rare"), device(2, type="common"), device(3, type="common")]
    devices += [device(n, type="rare", state=Availability.GONE) for n in (4, 5)]  # many, and none of them works
    assert granted(plan(NOW, devices, [job(1)])[1]) == {1: 2}


def test_among_equals_the_bundle_already_there_then_the_coolest_the_soundest_the_least_worn() -> None:
    def first(*devices: PlannedDevice, bundle: str | None = None) -> int:
        return granted(plan(NOW, devices, [job(1, bundle=bundle)])[1])[1]

    hot_with_it = device(3, temperature_c=45.0, bundle="b")
    assert first(device(1, temperature_c=40.0), device(2, temperature_c=30.0), hot_with_it, bundle="b") == 3
    assert first(device(1, temperature_c=40.0), device(2, temperature_c=30.0), hot_with_it, bundle="x") == 2
    assert first(device(1, infra_errors=2), device(2, infra_errors=1)) == 2
    assert first(device(1, used_s=900.0), device(2, used_s=100.0)) == 2


def test_a_failed_device_is_avoided_while_another_usable_one_matches() -> None:
    retry = job(1, avoid=frozenset({1}))
    assert granted(plan(NOW, [device(1), device(2)], [retry])[1]) == {1: 2}
    assert plan(NOW, [device(1), device(2, holder="attempt:9")], [retry])[1].grants == ()
    assert granted(plan(NOW, [device(1), device(2, state=Availability.GONE)], [retry])[1]) == {1: 1}


def test_a_team_that_floods_the_queue_does_not_shut_the_others_out() -> None:
    """500 jobs an hour old of one team against 5 fresh ones of another: they take turns."""
    queue = [job(n, team="flood", age_s=HOUR, estimate_s=600.0) for n in range(1, 501)]
    queue += [job(n, team="few", estimate_s=600.0) for n in range(501, 506)]
    index, made = plan(NOW, [device(1)], queue)
    clock = NOW
    order: list[int] = []
    while len(order) < 30:
        [grant] = made.grants
        order.append(grant.id)
        clock += timedelta(seconds=600)
        index, made = apply(index, DeviceSeen(device(1)), clock)
    last_of_few = max(order.index(n) for n in range(501, 506))
    assert last_of_few < 20
    assert any(n <= 500 for n in order[:last_of_few])  # and the flood goes on meanwhile


def test_a_team_of_three_times_the_weight_gets_three_times_the_devices() -> None:
    queue = [job(n, team="heavy" if n % 2 else "light", estimate_s=600.0) for n in range(400)]
    fleet = [device(n) for n in range(1, 101)]
    found = plan(NOW, fleet, queue, Shares({"heavy": 3.0, "light": 1.0}))[1]
    heavy = sum(1 for grant in found.grants if grant.id % 2)
    assert len(found.grants) == 100
    assert 72 <= heavy <= 78


def test_a_quota_holds_jobs_back_until_one_of_its_devices_is_free() -> None:
    shares = Shares(limits={"team:x": 1})
    queue = [job(1, accounts=("team:x",), age_s=2), job(2, accounts=("team:x",), age_s=1), job(3)]
    index, made = plan(NOW, [device(1), device(2), device(3)], queue, shares)
    assert set(granted(made)) == {1, 3}
    index, made = apply(index, DeviceSeen(device(granted(made)[1])), NOW)
    assert set(granted(made)) == {2}


def test_nothing_is_granted_on_a_held_device_and_what_waits_starts_when_the_hold_is_lifted() -> None:
    index, made = plan(NOW, [device(1, hold="paused")], [job(1)])
    assert made.grants == ()
    assert granted(apply(index, DeviceSeen(device(1)), NOW)[1]) == {1: 1}


def test_a_retry_gives_up_when_its_device_stays_away_and_a_first_try_waits_on() -> None:
    gone = device(1, state=Availability.GONE)
    lost = NOW - timedelta(minutes=3)
    index, found = plan(NOW, [gone], [job(1, pinned=1, lost_at=lost), job(2, pinned=1), job(3, pinned=1, lost_at=NOW)])
    assert [(g.id, g.reason) for g in found.give_ups] == [(1, "d1 did not come back within 120 s")]
    assert set(index.jobs) == {("job", 2), ("job", 3)}
    assert plan(NOW, [device(1, holder="attempt:2")], [job(1, pinned=1, lost_at=lost)])[1].give_ups == ()


def test_a_retry_waits_for_a_host_that_is_away_however_long() -> None:
    away = device(1, state=Availability.STALE)
    lost = NOW - timedelta(days=3)
    index, found = plan(NOW, [away], [job(1, pinned=1, lost_at=lost)])
    assert (found.give_ups, set(index.jobs)) == ((), {("job", 1)})
    back = apply(index, DeviceSeen(device(1)), NOW)[1]
    assert granted(back) == {1: 1}


def test_a_job_that_must_wait_a_moment_starts_when_the_moment_has_passed() -> None:
    due = NOW + timedelta(seconds=5)
    index, found = plan(NOW, [device(1)], [job(1, not_before=due)])
    assert found.grants == ()
    assert granted(apply(index, TimePassed(), due)[1]) == {1: 1}


def test_jobs_and_reservations_of_one_number_are_two_things() -> None:
    queue = [job(1, klass="debug", kind="reservation"), job(1)]
    found = plan(NOW, [device(1), device(2)], queue)[1]
    assert {grant.key for grant in found.grants} == {("job", 1), ("reservation", 1)}


def test_a_copy_of_an_index_is_planned_without_changing_the_first() -> None:
    index = build(NOW, [device(1)], [job(1), job(2, not_before=NOW + timedelta(hours=1))])
    copy = index.copy()
    assert granted(decide(copy)) == {1: 1}
    assert set(index.jobs) == {("job", 1), ("job", 2)}
    assert granted(decide(index)) == {1: 1}


@given(fleets, queues, shares, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    fleet: list[PlannedDevice], queue: list[WaitingJob], shares: Shares, dice: random.Random
) -> None:
    index, first = plan(NOW, fleet, queue, shares)
    dice.shuffle(fleet)
    dice.shuffle(queue)
    again, second = plan(NOW, fleet, queue, shares)
    assert second == first
    assert again.clocks == index.clocks


@given(fleets, queues, shares)
def test_no_device_is_given_twice_and_only_idle_ones_within_the_quotas(
    fleet: list[PlannedDevice], queue: list[WaitingJob], shares: Shares
) -> None:
    _, found = plan(NOW, fleet, queue, shares)
    given_out = [g.device_id for g in found.grants]
    assert len(given_out) == len(set(given_out))
    by_id, wanted = {d.id: d for d in fleet}, {j.key: j for j in queue}
    for grant in found.grants:
        assert by_id[grant.device_id].idle
        assert wanted[grant.key].matches(by_id[grant.device_id])
        assert (wanted[grant.key].not_before or NOW) <= NOW
    for account, limit in shares.limits.items():
        before = sum(1 for d in fleet if d.holder and account in d.accounts)
        started = sum(1 for g in found.grants if account in wanted[g.key].accounts)
        assert started <= max(0, limit - before)


@given(fleets, queues)
def test_no_idle_device_is_left_while_a_job_may_have_it(fleet: list[PlannedDevice], queue: list[WaitingJob]) -> None:
    index, found = plan(NOW, fleet, queue)
    idle = {d.id for d in fleet if d.idle} - {g.device_id for g in found.grants}
    for waiting in index.jobs.values():
        if waiting.not_before is not None and waiting.not_before > NOW:
            continue
        matching = [d for d in fleet if waiting.matches(d)]
        others = [d for d in matching if d.id not in waiting.avoid]
        worth = others if any(d.usable for d in others) else matching
        assert not {d.id for d in worth} & idle


@given(fleets, queues)
def test_every_job_starts_waits_or_gives_up(fleet: list[PlannedDevice], queue: list[WaitingJob]) -> None:
    index, found = plan(NOW, fleet, queue)
    answered = [g.key for g in found.grants] + [(u.kind, u.id) for u in found.give_ups] + list(index.jobs)
    assert sorted(answered) == sorted(j.key for j in queue)


@settings(max_examples=20)
@given(st.sampled_from(list(HANDICAP_S)), st.booleans(), st.integers(0, 40))
def test_nothing_starves_under_a_stream_of_debug_jobs(klass: str, own_team: bool, seed: int) -> None:
    """One device, a fresh debug job for it every 100 s, each taking 100 s: the patient job starts in bounded time."""
    dice = random.Random(seed)
    index, made = plan(NOW, [device(1, holder="attempt:0")], [job(0, klass=klass, team="us", estimate_s=100.0)])
    clock, n, team = NOW, 0, "us" if own_team else "them"
    bound = HANDICAP_S[klass] + PATIENCE_S[klass] + 200
    while (clock - NOW).total_seconds() <= bound:
        n, clock = n + 1, clock + timedelta(seconds=100)
        queued = clock - timedelta(seconds=dice.random() * 50)
        index.update(Arrived(WaitingJob(n, "debug", queued, (), team=team, estimate_s=100.0)), clock)
        index, made = apply(index, DeviceSeen(device(1)), clock)
        [grant] = made.grants
        if grant.id == 0:
            return
    raise AssertionError(f"a {klass} job waited {clock - NOW}")
