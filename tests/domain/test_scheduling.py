"""plan(): order-independent, never two leases, nothing starves, and every wait has a reason."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farm.domain.devices import Connection, DeviceFacts, Health, Readiness, availability
from farm.domain.jobs import HANDICAP_S
from farm.domain.scheduling import Plan, WaitingJob, plan
from farm.domain.selectors import parse

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def device(
    id: int,
    soc: str = "A",
    *,
    holder: str | None = None,
    health: Health = Health.GOOD,
    connection: Connection = Connection.ONLINE,
    heat: float | None = None,
    bundle: str | None = None,
    battery: int | None = None,
) -> DeviceFacts:
    return DeviceFacts(
        id, f"s{id}", f"d{id}", "local", False, True, None, None, None, {"soc": soc}, connection, NOW, health,
        readiness=Readiness(temperature_c=heat, battery_pct=battery, has_battery=battery is not None),
        lease_holder=holder, last_bundle=bundle,
    )  # fmt: skip


def job(id: int, wants: str = "*", *, klass: str = "manual", age_s: float = 0, **more: object) -> WaitingJob:
    return WaitingJob(id, klass, NOW - timedelta(seconds=age_s), (parse(wants),), **more)  # type: ignore[arg-type]


def granted(found: Plan) -> dict[int, int]:
    return {g.job_id: g.device_id for g in found.grants}


def test_the_oldest_job_of_a_class_comes_first() -> None:
    assert granted(plan(NOW, [device(1)], [job(1, age_s=10), job(2, age_s=20)])) == {2: 1}


def test_a_debug_job_overtakes_a_nightly_one_but_not_for_ever() -> None:
    fresh = job(1, klass="debug")
    assert granted(plan(NOW, [device(1)], [job(2, klass="nightly", age_s=3600), fresh])) == {1: 1}
    assert granted(plan(NOW, [device(1)], [job(2, klass="nightly", age_s=7201), fresh])) == {2: 1}


def test_a_device_wanted_by_few_goes_to_those_few() -> None:
    found = plan(NOW, [device(1, "rare"), device(2, "A")], [job(1, "*", age_s=50), job(2, "soc=rare")])
    assert granted(found) == {1: 2, 2: 1}


def test_among_equals_the_bundle_already_there_then_the_coolest() -> None:
    devices = [device(1, heat=40), device(2, heat=30), device(3, heat=45, bundle="b")]
    assert granted(plan(NOW, devices, [job(1, bundle="b")])) == {1: 3}
    assert granted(plan(NOW, devices, [job(1, bundle="x")])) == {1: 2}


def test_a_failed_device_is_avoided_while_another_usable_one_matches() -> None:
    retry = job(1, avoid=frozenset({1}))
    assert granted(plan(NOW, [device(1), device(2)], [retry])) == {1: 2}
    busy = plan(NOW, [device(1), device(2, holder="attempt:9")], [retry])
    assert busy.grants == ()
    assert "d2 is running (attempt:9)" in busy.waits[0].reason
    assert granted(plan(NOW, [device(1), device(2, connection=Connection.GONE)], [retry])) == {1: 1}


def test_a_wait_says_its_place_and_what_it_waits_for() -> None:
    found = plan(NOW, [device(1, holder="reservation:4")], [job(1, age_s=9), job(2), job(3, "soc=Z")])
    reasons = {w.job_id: w.reason for w in found.waits}
    assert reasons[1] == "position 1 of 3: d1 is reserved (reservation:4)"
    assert reasons[2].startswith("position 2 of 3: ")
    assert reasons[3] == "position 3 of 3: no device matches soc=Z"


def test_a_device_with_a_low_battery_is_not_given_out() -> None:
    found = plan(NOW, [device(1, battery=12)], [job(1)])
    assert "battery is below 20 %" in found.waits[0].reason
    assert granted(plan(NOW, [device(1, battery=20)], [job(1)])) == {1: 1}


def test_a_retry_gives_up_when_its_device_stays_away_and_a_first_try_waits_on() -> None:
    gone = device(1, connection=Connection.GONE)
    lost = NOW - timedelta(minutes=3)
    found = plan(NOW, [gone], [job(1, pinned=1, lost_at=lost), job(2, pinned=1), job(3, pinned=1, lost_at=NOW)])
    assert [(g.job_id, g.reason) for g in found.give_ups] == [(1, "d1 did not come back within 120 s")]
    assert [w.job_id for w in found.waits] == [2, 3]
    busy = plan(NOW, [device(1, holder="attempt:2")], [job(1, pinned=1, lost_at=lost)])
    assert busy.give_ups == ()


def test_a_job_that_must_wait_a_moment_is_not_started() -> None:
    found = plan(NOW, [device(1)], [job(1, not_before=NOW + timedelta(seconds=5))])
    assert found.grants == ()
    assert "waits a moment" in found.waits[0].reason


devices_strategy = st.lists(
    st.builds(
        device,
        st.integers(1, 8),
        st.sampled_from("AB"),
        holder=st.sampled_from([None, None, "attempt:1", "reservation:2"]),
        health=st.sampled_from(Health),
        connection=st.sampled_from([Connection.ONLINE, Connection.ONLINE, Connection.GONE, Connection.OFFLINE]),
        heat=st.one_of(st.none(), st.floats(20, 60)),
    ),
    unique_by=lambda d: d.id,
    max_size=6,
)
jobs_strategy = st.lists(
    st.builds(
        job,
        st.integers(1, 30),
        st.sampled_from(["*", "soc=A", "soc=B", "soc=Z", "not soc=A"]),
        klass=st.sampled_from(list(HANDICAP_S)),
        age_s=st.floats(0, 20000),
        pinned=st.sampled_from([None, None, 1, 9]),
        avoid=st.frozensets(st.integers(1, 8), max_size=3),
        not_before=st.sampled_from([None, NOW + timedelta(seconds=9), NOW - timedelta(seconds=9)]),
        lost_at=st.sampled_from([None, NOW, NOW - timedelta(hours=1)]),
    ),
    unique_by=lambda j: j.id,
    max_size=10,
)


@given(devices_strategy, jobs_strategy, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    devices: list[DeviceFacts], jobs: list[WaitingJob], dice: random.Random
) -> None:
    first = plan(NOW, devices, jobs)
    dice.shuffle(devices)
    dice.shuffle(jobs)
    assert plan(NOW, devices, jobs) == first


@given(devices_strategy, jobs_strategy)
def test_no_device_is_given_twice_and_only_ready_ones_are(devices: list[DeviceFacts], jobs: list[WaitingJob]) -> None:
    found = plan(NOW, devices, jobs)
    given_out = [g.device_id for g in found.grants]
    assert len(given_out) == len(set(given_out))
    by_id = {d.id: d for d in devices}
    wanted = {j.id: j for j in jobs}
    for grant in found.grants:
        assert availability(by_id[grant.device_id], NOW)[0] == "ready"
        assert wanted[grant.job_id].matches(by_id[grant.device_id])


@given(devices_strategy, jobs_strategy)
def test_every_job_starts_waits_with_a_reason_or_gives_up_with_one(
    devices: list[DeviceFacts], jobs: list[WaitingJob]
) -> None:
    found = plan(NOW, devices, jobs)
    answered = [g.job_id for g in found.grants] + [w.job_id for w in found.waits] + [u.job_id for u in found.give_ups]
    assert sorted(answered) == sorted(j.id for j in jobs)
    assert [w.position for w in found.waits] == list(range(1, len(found.waits) + 1))
    for said in (*found.waits, *found.give_ups):
        assert said.reason.strip(": ")
    assert all(w.reason.split(": ", 1)[1] for w in found.waits)


@given(jobs_strategy)
def test_no_ready_device_idles_while_a_job_wants_it(jobs: list[WaitingJob]) -> None:
    devices = [device(1, "A"), device(2, "B")]
    found = plan(NOW, devices, jobs)
    idle = {1, 2} - {g.device_id for g in found.grants}
    waiting = {w.job_id for w in found.waits}
    for j in jobs:
        early = j.not_before is not None and j.not_before > NOW
        if j.id in waiting and not early:
            usable = [d for d in devices if j.matches(d) and d.id not in j.avoid] or [
                d for d in devices if j.matches(d)
            ]
            assert not {d.id for d in usable} & idle


@given(st.sampled_from(list(HANDICAP_S)), st.integers(0, 40))
def test_nothing_starves_under_a_stream_of_debug_jobs(klass: str, seed: int) -> None:
    """One device, one fresh debug job every 100 s, each taking 100 s: the patient job starts in bounded time."""
    patient = WaitingJob(0, klass, NOW, (parse("*"),))
    dice = random.Random(seed)
    queue, clock = [patient], NOW
    for n in range(1, 200):
        clock += timedelta(seconds=100)
        queue.append(WaitingJob(n, "debug", clock - timedelta(seconds=dice.random() * 50), (parse("*"),)))
        fresh = DeviceFacts(1, "s", "d", "local", False, True, None, None, None, {}, Connection.ONLINE, clock)
        [grant] = plan(clock, [fresh], queue).grants
        queue = [j for j in queue if j.id != grant.job_id]
        if grant.job_id == 0:
            assert clock - NOW <= timedelta(seconds=HANDICAP_S[klass] + 200)
            return
    raise AssertionError(f"a {klass} job waited {clock - NOW}")
