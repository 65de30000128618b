"""The queue as the planner sees it, holds, quotas, learnt durations, and why something waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.durations import OVERHEAD, SUITE, TEST
from farm.domain.scheduling import decide
from farm.domain.scheduling.why import reason
from farm.store import durations, holds, leases, queue, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url
from farm.store.reads import why
from farm.work.submit import Refused
from tests.work.factories import add_bundle_and_pack, add_device, start_run


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Database]:
    """Two devices of one type in two pools, a bundle, a pack."""
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    for name, pool in (("d1", "ci"), ("d2", "lab")):
        add_device(db, name, soc="A")
        with db.session() as session:
            row = session.scalars(select(tables.Device).where(tables.Device.name == name)).one()
            row.pool, row.type = pool, "phone"
    add_bundle_and_pack(db, ArtifactStore(tmp_path / "artifacts"), tmp_path / "src")
    yield db
    db.close()


def hold(db: Database, scope: str, name: str, **more: timedelta) -> None:
    with db.session() as session:
        now = db.now(session)
        until = now + more["lasts"] if "lasts" in more else None
        holds.place(session, scope, holds.target(session, scope, name), "new cable", "ada", now, until)


def idle(db: Database, later: timedelta = timedelta(0)) -> list[str]:
    with db.read() as session:
        now = db.now(session)
        found = queue.planned_devices(session, now + later, queue.Limits())
    return [d.name for d in found if (d.hold is None if later else d.idle)]  # later nobody has seen them


@pytest.mark.parametrize(
    ("scope", "name", "left"),
    [("device", "d1", ["d2"]), ("pool", "lab", ["d1"]), ("host", "local", []), ("farm", "", [])],
)
def test_a_hold_takes_what_it_names_out_of_the_plan_until_it_is_lifted(
    farm: Database, scope: str, name: str, left: list[str]
) -> None:
    hold(farm, scope, name)
    assert idle(farm) == left
    with farm.session() as session:
        holds.lift(session, scope, holds.target(session, scope, name), "ada", farm.now(session))
    assert idle(farm) == ["d1", "d2"]


def test_a_hold_with_an_end_is_over_then(farm: Database) -> None:
    hold(farm, "farm", "", lasts=timedelta(minutes=5))
    assert idle(farm) == []
    assert idle(farm, later=timedelta(minutes=6)) == ["d1", "d2"]


def test_what_is_not_there_cannot_be_held(farm: Database) -> None:
    with pytest.raises(holds.UnknownTarget, match="did you mean d1"):
        hold(farm, "device", "d11")


def test_the_same_hold_twice_is_one_hold(farm: Database) -> None:
    hold(farm, "pool", "ci")
    hold(farm, "pool", "ci")
    with farm.read() as session:
        assert len(holds.in_force(session, farm.now(session))) == 1


def test_a_quota_of_devices_holds_the_rest_back_and_says_so(farm: Database) -> None:
    with farm.session() as session:
        session.merge(tables.Team(name="default", weight=1.0, max_devices=1, created_at=farm.now(session)))
    start_run(farm)
    with farm.read() as session:
        index, _ = queue.index(session, farm.now(session))
        assert len(decide(index).grants) == 1
        [waiting] = index.jobs.values()
    assert waiting.accounts == ("team:default",)
    assert reason(index, waiting) == "team default holds 1 of 1 device"


@pytest.mark.parametrize("whose", ["team", "token"])
def test_more_waiting_than_the_quota_allows_is_refused_with_the_figures(farm: Database, whose: str) -> None:
    with farm.session() as session:
        now = farm.now(session)
        if whose == "team":
            session.merge(tables.Team(name="default", weight=1.0, max_waiting=3, created_at=now))
        user = tables.User(name="u", created_at=now)
        session.add(user)
        session.flush()
        most = 3 if whose == "token" else None
        session.add(
            tables.Token(id=7, name="ci", user_id=user.id, sha256="s", scopes=[], created_at=now, max_waiting=most)
        )
    start_run(farm, token_id=7)
    with pytest.raises(Refused) as refused:
        start_run(farm, token_id=7)
    assert refused.value.code == "over-quota"
    assert "has 2 waiting and may have 3: 2 more jobs are too many" in refused.value.message
    start_run(farm, token_id=7, selector="name=d1")


def finish(db: Database, run: int, seconds: dict[str, float], outcome: str = "passed") -> int:
    """The run's first job as if it had run on d1 for so long in each test, and 5 s beside."""
    with db.session() as session:
        now = db.now(session)
        job = session.scalars(select(tables.Job).where(tables.Job.run_id == run).order_by(tables.Job.id)).first()
        assert job is not None
        began = now - timedelta(seconds=sum(seconds.values()) + 5)
        attempt = tables.Attempt(
            job_id=job.id, number=1, device_id=1, host="local", token=1, phase="done", outcome=outcome,
            created_at=began, ended_at=now, workflow_id=f"w{job.id}",
        )  # fmt: skip
        session.add(attempt)
        session.flush()
        for n, (test, took) in enumerate(seconds.items()):
            session.add(
                tables.Test(
                    attempt_id=attempt.id, test_id=test, ordinal=n, outcome="passed", duration_s=took, ended_at=now
                )
            )
        session.flush()
        durations.learn(session, attempt, now)
        job.state, job.outcome = "ended", outcome
        return attempt.id


def test_durations_are_learnt_per_suite_test_bundle_and_type_and_serve_a_type_never_seen(farm: Database) -> None:
    for seconds in (10.0, 20.0, 30.0):
        finish(farm, start_run(farm, selector="name=d1"), {"smoke/test_smoke.py::test_starts": seconds})
    with farm.read() as session:
        known = durations.load(session, ["smoke/test_smoke.py::test_starts"])
    for device_type in ("phone", "board", None):
        suite = known.of(SUITE, "smoke", "reference", device_type)
        assert suite is not None
        assert (suite.p50, suite.n) == (20.0, 3)
    test = known.of(TEST, "smoke/test_smoke.py::test_starts", "another", "phone")
    assert test is not None
    assert round(test.p90, 1) == 28.0
    beside = known.of(OVERHEAD, "", "reference", "phone")
    assert beside is not None
    assert round(beside.p50) == 5
    whole = known.of_job(["smoke"], None, "reference", "phone")
    assert whole is not None
    assert round(whole.p50) == 25
    assert known.of_job(["smoke", "never"], None, "reference", "phone") is None  # not known is not 0


def test_an_attempt_that_broke_off_teaches_nothing(farm: Database) -> None:
    finish(farm, start_run(farm, selector="name=d1"), {"smoke/test_smoke.py::test_starts": 9.0}, outcome="device-lost")
    with farm.read() as session:
        assert session.scalars(select(tables.Duration)).all() == []


def test_the_planner_is_told_what_was_learnt(farm: Database) -> None:
    finish(farm, start_run(farm, selector="name=d1"), {"smoke/test_smoke.py::test_starts": 10.0})
    start_run(farm, selector="name=d1")
    with farm.read() as session:
        index, _ = queue.index(session, farm.now(session))
    [job] = index.jobs.values()
    assert job.estimate_s is not None
    assert round(job.estimate_s) == 15


def test_shards_share_the_tests_out_by_how_long_they_took(farm: Database) -> None:
    with pytest.raises(Refused) as refused:
        start_run(farm, mode="shard", shards=2)
    assert refused.value.code == "no-tests-known"
    took = {f"smoke/test_smoke.py::test_{n}": float(n) for n in (7, 5, 4, 3, 1)}
    finish(farm, start_run(farm, selector="name=d1"), took)
    run = start_run(farm, mode="shard", shards=2)
    with farm.read() as session:
        jobs = session.scalars(select(tables.Job).where(tables.Job.run_id == run).order_by(tables.Job.ordinal)).all()
    assert [job.shard for job in jobs] == [0, 1]
    assert all(job.device_id is None for job in jobs)
    tests = [job.tests or [] for job in jobs]
    assert sorted(tests[0] + tests[1]) == sorted(took)
    assert sorted(sum(took[test] for test in part) for part in tests) == [10.0, 10.0]


def test_why_tells_place_candidates_holder_until_when_and_the_expected_start(farm: Database) -> None:
    start_run(farm, selector="name=d1")
    later = start_run(farm, selector="name=d1")
    with farm.session() as session:
        now = farm.now(session)
        leases.grant(session, 1, "reservation:9", None, now, now + timedelta(minutes=10))
        found = why.job_why(session, 2, now)
    assert found is not None
    assert (found.run_id, found.state, found.position, found.waiting, found.rivals) == (later, "queued", 2, 2, 1)
    assert found.wants == "name=d1"
    [device] = found.candidates
    assert (device.name, device.state, device.holder) == ("d1", "reserved", "reservation:9")
    assert device.until == now + timedelta(minutes=10)
    assert found.estimated_start is not None  # after the holder, and after the job before it
    assert found.estimated_start >= now + timedelta(minutes=15)
    assert found.accuracy.median_error_s is None  # not measured yet


def test_why_tells_of_a_hold_and_foretells_nothing(farm: Database) -> None:
    start_run(farm, selector="name=d1")
    hold(farm, "pool", "ci")
    with farm.read() as session:
        found = why.job_why(session, 1, farm.now(session))
    assert found is not None
    assert "pool ci is paused by ada: new cable" in found.reason
    assert found.estimated_start is None


def test_why_of_what_waits_no_more_says_what_it_does(farm: Database) -> None:
    finish(farm, start_run(farm, selector="name=d1"), {})
    with farm.read() as session:
        found = why.job_why(session, 1, farm.now(session))
        assert why.job_why(session, 99, farm.now(session)) is None
    assert found is not None
    assert found.reason == "it has ended: passed (waits for the planner)"
    assert found.position is None


def test_estimates_are_judged_by_when_jobs_really_began(farm: Database) -> None:
    for late_s in (10, 20, 90):
        run = start_run(farm, selector="name=d1")
        attempt_id = finish(farm, run, {})
        with farm.session() as session:
            attempt = session.get_one(tables.Attempt, attempt_id)
            job = session.get_one(tables.Job, attempt.job_id)
            job.first_estimated_start_at = attempt.created_at - timedelta(seconds=late_s)
    with farm.read() as session:
        found = why.accuracy(session)
    assert found.n == 3
    assert found.median_error_s == 20.0


def test_use_of_the_last_day_counts_and_older_use_does_not(farm: Database) -> None:
    run = start_run(farm, selector="name=d1")
    attempt_id = finish(farm, run, {})
    with farm.session() as session:
        now = farm.now(session)
        lease = leases.grant(session, 1, f"attempt:{attempt_id}", attempt_id, now - timedelta(hours=1), now)
        session.get_one(tables.Lease, lease.id).ended_at = now
    with farm.read() as session:
        assert set(queue.index(session, now)[0].clocks) == {("default", "manual")}
        assert queue.index(session, now + timedelta(hours=30))[0].clocks == {}


def test_submitting_is_refused_for_a_number_of_shards_that_makes_no_sense(farm: Database) -> None:
    with pytest.raises(Refused) as refused:
        start_run(farm, mode="shard", shards=1)
    assert refused.value.code == "bad-shards"
