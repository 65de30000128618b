"""What an attempt's end means: for the job, the run and the device, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.outcomes import Outcome
from farm.store import leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.work.factories import add_bundle_and_pack, add_device, start_run


@pytest.fixture
def farm(db: Database, store: ArtifactStore, tmp_path: Path) -> Database:
    add_device(db, "d1")
    add_bundle_and_pack(db, store, tmp_path / "src")
    start_run(db)
    return db


def attempt_ends(db: Database, outcome: Outcome | None, *tests: tuple[str, str, str | None]) -> tables.Job:
    """The planner starts an attempt, it ends like this, its lease is ended; returns the job."""
    with db.session() as session:
        for job in session.query(tables.Job):
            job.not_before = None
        device = session.get_one(tables.Device, 1)
        device.health, device.seen_at = "good", db.now()
    Planner(db, WorkSettings(), lambda _session, _attempt: None).once()
    with db.session() as session:
        attempt = session.scalars(select(tables.Attempt).order_by(tables.Attempt.id.desc())).first()
        assert attempt is not None
        for test, result, cause in tests:
            session.add(tables.Test(attempt_id=attempt.id, test_id=test, outcome=result, cause=cause))
        if outcome is not None:
            set_outcome(attempt, outcome, f"because of {outcome.value}")
        [lease] = leases.open_leases(session)
        leases.end(session, lease.id, db.now(), "cleaned")
        close(session, attempt, db.now())
        close(session, attempt, db.now())  # the second time nothing happens
        return session.get_one(tables.Job, attempt.job_id)


def test_a_pass_ends_job_and_run_and_is_good_for_the_device(farm: Database) -> None:
    job = attempt_ends(farm, Outcome.PASSED)
    assert (job.state, job.outcome) == ("ended", "passed")
    with farm.read() as session:
        assert session.get_one(tables.Run, 1).outcome == "passed"
        assert session.get_one(tables.Device, 1).infra_errors == 0


def test_a_lost_device_is_tried_again_at_its_old_place_and_the_device_is_doubted(farm: Database) -> None:
    with farm.read() as session:
        queued_at = session.get_one(tables.Job, 1).queued_at
    job = attempt_ends(farm, Outcome.DEVICE_LOST)
    assert (job.state, job.queued_at, job.avoid) == ("queued", queued_at, [1])
    assert job.not_before is not None
    with farm.read() as session:
        device = session.get_one(tables.Device, 1)
        assert (device.health, device.infra_errors) == ("suspect", 1)
        assert "device-lost" in str(device.health_reason)


def test_after_its_tries_a_lost_device_ends_the_job_and_farm_trouble_is_not_red(farm: Database) -> None:
    for _ in range(2):
        assert attempt_ends(farm, Outcome.DEVICE_LOST).state == "queued"
    job = attempt_ends(farm, Outcome.DEVICE_LOST)
    assert (job.state, job.outcome) == ("ended", "device-lost")


def test_a_failure_before_the_loss_stays_red_when_the_rest_passes(farm: Database) -> None:
    lost = ("smoke/test_smoke.py::test_ends", "failed", "device-lost")
    attempt_ends(farm, Outcome.DEVICE_LOST, ("smoke/test_smoke.py::test_starts", "failed", None), lost)
    assert attempt_ends(farm, Outcome.PASSED).outcome == "failed"


def test_an_attempt_without_an_outcome_is_the_farms_own_trouble(farm: Database) -> None:
    attempt_ends(farm, None)
    with farm.read() as session:
        attempt = session.get_one(tables.Attempt, 1)
    assert attempt.outcome == "infra-error"
    assert "without an outcome" in str(attempt.reason)


def test_the_first_cause_wins_and_a_later_truth_is_kept_beside_it() -> None:
    attempt = tables.Attempt()
    set_outcome(attempt, Outcome.CRASHED, "SIGSEGV")
    set_outcome(attempt, Outcome.CRASHED, "again")
    set_outcome(attempt, Outcome.DEVICE_LOST, "gone")
    set_outcome(attempt, Outcome.PASSED, "late")
    assert (attempt.outcome, attempt.reason) == ("crashed", "SIGSEGV")
    assert (attempt.late_outcome, attempt.late_reason) == ("device-lost", "gone")
