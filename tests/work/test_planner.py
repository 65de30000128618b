"""The planner's loop: a grant is whole or not there, the rest says why it waits, and nobody else's trouble stops it."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.devices import STALE_AFTER
from farm.domain.leases import HEARTBEAT
from farm.store import holds, leases, reservations, tables
from farm.store import queue as store_queue
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.submit import cancel
from tests.waiting import eventually
from tests.work.factories import add_bundle_and_pack, add_device, see_again, start_run

SETTINGS = WorkSettings(give_up_s=0.0, planner_tick_s=30.0)


class Queue:
    """Remembers what was put into it; breaks when told to."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.broken = False

    def __call__(self, session: Session, attempt: tables.Attempt) -> None:
        if self.broken:
            raise RuntimeError("the queue is away")
        self.attempts.append(attempt.id)


@pytest.fixture
def farm(db: Database, store: ArtifactStore, tmp_path: Path) -> Database:
    add_device(db, "d1")
    add_device(db, "d2")
    add_bundle_and_pack(db, store, tmp_path / "src")
    return db


def jobs(db: Database) -> list[tables.Job]:
    with db.read() as session:
        return list(session.scalars(select(tables.Job).order_by(tables.Job.id)))


def test_a_grant_is_lease_attempt_and_queue_entry_at_once(farm: Database) -> None:
    run, queue = start_run(farm), Queue()
    Planner(farm, SETTINGS, queue).once()
    assert len(queue.attempts) == 2
    with farm.read() as session:
        for attempt in session.scalars(select(tables.Attempt)):
            assert leases.still_mine(session, attempt.id, attempt.token)
            assert attempt.token > 0
            assert attempt.waiting_for
        assert session.get_one(tables.Run, run).state == "running"
    assert {j.state for j in jobs(farm)} == {"running"}


def test_a_grant_that_cannot_be_queued_leaves_nothing_behind(farm: Database) -> None:
    start_run(farm)
    queue = Queue()
    queue.broken = True
    planner = Planner(farm, SETTINGS, queue)
    with pytest.raises(RuntimeError):
        planner.once()
    with farm.read() as session:
        assert leases.open_leases(session) == []
        assert session.scalars(select(tables.Attempt)).all() == []
    assert {j.state for j in jobs(farm)} == {"queued"}
    queue.broken = False
    planner.once()
    assert len(queue.attempts) == 2


def test_what_waits_says_its_place_and_its_holder(farm: Database) -> None:
    start_run(farm)
    planner = Planner(farm, SETTINGS, Queue())
    planner.once()
    start_run(farm)
    planner.once()
    reasons = [(j.wait_reason or "").partition(", until about ") for j in jobs(farm) if j.state == "queued"]
    assert [words for words, _, _ in reasons] == [
        "position 1 of 2: d1 is running (run 1 of team default",
        "position 2 of 2: d2 is running (run 1 of team default",
    ]
    assert all(until.endswith(" UTC)") for _, _, until in reasons)


def test_a_job_that_cannot_be_planned_is_shown_and_stops_nobody(farm: Database) -> None:
    start_run(farm)
    with farm.session() as session:
        session.get_one(tables.Job, 1).selector = "soc=="
    queue = Queue()
    Planner(farm, SETTINGS, queue).once()
    first, second = jobs(farm)
    assert first.wait_reason is not None
    assert "cannot be planned" in first.wait_reason
    assert second.state == "running"


def test_a_cancelled_job_is_not_started(farm: Database) -> None:
    run = start_run(farm)
    cancel(farm, run, "ada")
    queue = Queue()
    Planner(farm, SETTINGS, queue).once()
    assert queue.attempts == []


def test_a_retry_whose_device_stays_away_ends_with_words(farm: Database) -> None:
    run = start_run(farm, selector="name=d1")
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    with farm.session() as session:
        session.add(
            tables.Attempt(
                job_id=1, number=1, device_id=1, host="local", token=1, phase="done", outcome="device-lost",
                reason="adb lost it", created_at=long_ago, ended_at=long_ago, workflow_id="w",
            )
        )  # fmt: skip
        session.get_one(tables.Device, 1).connection = "gone"
    Planner(farm, SETTINGS, Queue()).once()
    [job] = jobs(farm)
    assert (job.state, job.outcome) == ("ended", "device-lost")
    assert job.wait_reason == "d1 did not come back within 0 s after 1 try"
    with farm.read() as session:
        assert session.get_one(tables.Run, run).outcome == "device-lost"


def test_a_silent_lease_is_not_expired_right_after_a_start_and_its_host_is_closed_later(farm: Database) -> None:
    clock = [datetime.now(UTC)]
    farm._clock = lambda: clock[0]
    run = start_run(farm, selector="name=d1")
    planner = Planner(farm, SETTINGS, Queue())
    planner.once()
    clock[0] += HEARTBEAT * 2
    restarted = Planner(farm, WorkSettings(), Queue())
    restarted.once()
    with farm.read() as session:
        [lease] = leases.open_leases(session)
        assert lease.released_at is None
    clock[0] += HEARTBEAT
    restarted.once()
    with farm.read() as session:
        [lease] = leases.open_leases(session)  # not free before it is cleaned
        assert lease.released_at is not None
        attempt = session.get_one(tables.Attempt, 1)
        assert (attempt.phase, attempt.outcome) == ("done", "infra-error")
        assert session.get_one(tables.Run, run).state == "running"
        assert session.get_one(tables.Job, 1).state == "queued"


def test_the_loop_wakes_when_a_run_is_submitted_and_when_a_device_becomes_free(farm: Database) -> None:
    queue = Queue()
    planner = Planner(farm, SETTINGS, queue)
    planner.start()
    try:
        see_again(farm)
        start_run(farm, selector="name=d1")
        eventually(lambda: queue.attempts == [1])
        start_run(farm, selector="name=d1")
        eventually(lambda: "running" in (jobs(farm)[1].wait_reason or ""))
        see_again(farm)
        with farm.session() as session:
            [lease] = leases.open_leases(session)
            leases.end(session, lease.id, farm.now(), "cleaned")
        eventually(lambda: queue.attempts == [1, 2])
    finally:
        planner.stop()


def test_the_running_planner_follows_what_it_hears_of_and_agrees_with_the_rows(farm: Database) -> None:
    """Submit, cancel, hold, lift, quota, a reservation, a device that ends: nothing is read anew in between."""
    queue = Queue()
    planner = Planner(farm, replace(SETTINGS, planner_tick_s=0.5), queue)
    with farm.session() as session:
        for row in session.scalars(select(tables.Device)):
            row.seen_at = farm.now(session) + timedelta(hours=1)  # nobody keeps them fresh here
    planner.start()
    try:
        hold(farm, "farm", "")
        first = start_run(farm)
        eventually(lambda: all("held" in (j.wait_reason or "") for j in jobs(farm)))
        assert queue.attempts == []
        cancel(farm, first, "ada")
        start_run(farm, mode="any", klass="nightly")
        with farm.session() as session:
            wish = reservations.Wish("name=d1", timedelta(hours=1), "bob", "default")
            reservations.request(session, wish, farm.now(session))
        with farm.session() as session:
            holds.lift(session, "farm", "", "ada", farm.now(session))
        eventually(lambda: queue.attempts == [1])
        eventually(lambda: held(farm) == {"attempt:1", "reservation:1"})
        start_run(farm, selector="name=d2")
        eventually(lambda: "d2 is running (run 2 of team default" in (jobs(farm)[-1].wait_reason or ""))
        eventually(lambda: jobs(farm)[-1].first_estimated_start_at is not None)
        with farm.read() as session:
            found, _ = store_queue.index(session, farm.now(session))
        assert planner._mirror.index.jobs == found.jobs
    finally:
        planner.stop()


def held(db: Database) -> set[str]:
    with db.read() as session:
        return {lease.holder for lease in leases.open_leases(session)}


def hold(db: Database, scope: str, ref: str) -> None:
    with db.session() as session:
        holds.place(session, scope, ref, "new cable", "ada", db.now(session))


def test_a_reservation_is_planned_before_the_jobs_that_came_with_it(farm: Database) -> None:
    start_run(farm, selector="name=d1")
    with farm.session() as session:
        wish = reservations.Wish("name=d1", timedelta(hours=1), "bob", "default")
        _, lease = reservations.request(session, wish, farm.now(session))
    assert lease is None
    Planner(farm, SETTINGS, Queue()).once()
    assert held(farm) == {"reservation:1"}


def test_only_so_many_reasons_are_written_and_each_once(farm: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.work.planner.REASONS", 3)
    hold(farm, "farm", "")
    for _ in range(4):
        start_run(farm, mode="any")
    planner = Planner(farm, SETTINGS, Queue())
    planner.once()
    told = [j.wait_reason or "" for j in jobs(farm)]
    assert [words.split(":")[0] for words in told[:3]] == [f"position {n} of 4" for n in (1, 2, 3)]
    assert told[3] == "waits for the planner"
    with farm.read() as session:
        before = len(session.scalars(select(tables.Change)).all())
    planner.once()
    with farm.read() as session:
        assert len(session.scalars(select(tables.Change)).all()) == before


def test_many_planners_at_once_start_every_job_once_and_no_device_twice(farm: Database) -> None:
    """There is one planner, but nothing breaks when a second one is still running."""
    for n in range(3, 7):
        add_device(farm, f"d{n}")
    for _ in range(8):
        start_run(farm, mode="any")
    planners = [Planner(farm, SETTINGS, Queue()) for _ in range(4)]
    errors: list[BaseException] = []

    def plan_on(planner: Planner) -> None:
        try:
            for _ in range(5):
                planner.once()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=plan_on, args=(planner,)) for planner in planners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    with farm.read() as session:
        held = leases.open_leases(session)
        attempts = session.scalars(select(tables.Attempt)).all()
    assert sorted(lease.device_id for lease in held) == [1, 2, 3, 4, 5, 6]
    assert len({a.job_id for a in attempts}) == len(attempts) == 6


def test_a_host_that_falls_silent_is_announced_once_and_so_is_its_coming_back(farm: Database) -> None:
    def announced() -> int:
        with farm.read() as session:
            refs = session.scalars(select(tables.Change.ref).where(tables.Change.topic == "host")).all()
        assert set(refs) <= {"local"}
        return len(refs)

    def heard(ago: timedelta) -> None:
        with farm.session() as session:
            session.get_one(tables.Host, "local").seen_at = datetime.now(UTC) - ago

    planner = Planner(farm, SETTINGS, Queue())
    heard(timedelta(days=-1))
    planner.once()
    assert announced() == 1  # how it is at the start, for whoever looked before
    planner.once()
    assert announced() == 1
    heard(STALE_AFTER * 2)
    planner.once()
    planner.once()
    assert announced() == 2
    heard(timedelta(days=-1))
    planner.once()
    assert announced() == 3
