"""Processes that change one run at the same moment: what each of them reads is what the others have left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.outcomes import Outcome
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.locks import hold_attempt
from farm.work import submit as front
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.work.factories import add_bundle_and_pack, add_device, start_run

DEVICES = 6


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    made = Database(database_url)
    made.migrate()
    yield made
    made.close()


def together(*tasks: Callable[[], object]) -> list[BaseException]:
    """Run them at the same moment, each in a thread; what they raised."""
    start, errors = threading.Barrier(len(tasks)), list[BaseException]()

    def run(task: Callable[[], object]) -> None:
        start.wait(60)
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


def start(db: Database, tmp_path: Path) -> tuple[int, list[int]]:
    """A run with an attempt on each of the devices."""
    for n in range(DEVICES):
        add_device(db, f"d{n}")
    add_bundle_and_pack(db, ArtifactStore(tmp_path / "artifacts"), tmp_path)
    run = start_run(db)
    Planner(db, WorkSettings(), lambda _session, _attempt: None).once()
    with db.read() as session:
        return run, list(session.scalars(select(tables.Attempt.id).order_by(tables.Attempt.id)))


def end(db: Database, attempt_id: int, outcome: Outcome = Outcome.PASSED) -> None:
    with db.session() as session:
        attempt = hold_attempt(session, attempt_id)
        set_outcome(attempt, outcome, "said so")
        close(session, attempt, db.now(session))


def test_a_run_ends_though_its_last_jobs_end_at_the_same_moment(db: Database, tmp_path: Path) -> None:
    run, attempts = start(db, tmp_path)
    assert len(attempts) == DEVICES
    assert together(*[lambda a=a: end(db, a) for a in attempts]) == []
    with db.read() as session:
        row = session.get_one(tables.Run, run)
        assert (row.state, row.outcome) == ("ended", "passed")


def test_a_run_that_is_cancelled_while_its_jobs_end_has_every_job_ended_or_told(db: Database, tmp_path: Path) -> None:
    run, attempts = start(db, tmp_path)
    ends = [lambda a=a: end(db, a, Outcome.INFRA_ERROR) for a in attempts]
    errors = together(lambda: front.cancel(db, run, "somebody"), *ends)
    # with so many errors the farm may have given the run up before the cancel came, which it then says
    assert [str(error) for error in errors] in ([], [f"run {run} has ended already (infra-error)"])
    with db.read() as session:
        row = session.get_one(tables.Run, run)
        jobs = list(session.scalars(select(tables.Job).where(tables.Job.run_id == run)))
    # those that ended before the cancel were queued again, and ended with it; those after it saw it
    assert [job.state for job in jobs] == ["ended"] * DEVICES
    assert (row.state, row.cancel_by) == ("ended", None if errors else "somebody")


def test_the_first_cause_wins_whoever_writes_at_the_same_moment(db: Database, tmp_path: Path) -> None:
    _, attempts = start(db, tmp_path)

    def cause(outcome: Outcome) -> None:
        with db.session() as session:
            set_outcome(hold_attempt(session, attempts[0]), outcome, outcome.value)

    assert together(*[lambda o=o: cause(o) for o in (Outcome.PASSED, Outcome.DEVICE_LOST)]) == []
    with db.read() as session:
        row = session.get_one(tables.Attempt, attempts[0])
    assert {row.outcome, row.late_outcome} == {"passed", "device-lost"}  # neither overwrote the other


def test_two_planners_at_the_same_moment_start_each_job_once(db: Database, tmp_path: Path) -> None:
    for n in range(DEVICES):
        add_device(db, f"d{n}")
    add_bundle_and_pack(db, ArtifactStore(tmp_path / "artifacts"), tmp_path)
    start_run(db)
    planners = [Planner(db, WorkSettings(), lambda _session, _attempt: None) for _ in range(3)]
    assert together(*[planner.once for planner in planners]) == []
    with db.read() as session:
        jobs = list(session.scalars(select(tables.Attempt.job_id)))
        leases = list(session.scalars(select(tables.Lease.device_id)))
    assert len(jobs) == len(set(jobs)) == len(leases) == len(set(leases)) == DEVICES
