"""A run that stops trying, and a failure that is confirmed on a second device."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.causes import Cause
from farm.domain.outcomes import Outcome
from farm.store import leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.work.factories import add_bundle_and_pack, add_device, start_run

TEST = "smoke/test_smoke.py::test_ends"


@pytest.fixture
def farm(db: Database, store: ArtifactStore, tmp_path: Path) -> Database:
    add_bundle_and_pack(db, store, tmp_path / "src")
    return db


def attempt_ends(
    db: Database, job_id: int, outcome: Outcome, cause: Cause | None = None, *, failed: str | None = None
) -> None:
    """The job has an attempt on its device (the first one if it has none) that ends like this."""
    with db.session() as session:
        now = db.now(session)
        job = session.get_one(tables.Job, job_id)
        tries = session.scalars(select(tables.Attempt).where(tables.Attempt.job_id == job_id)).all()
        device = session.get_one(tables.Device, job.device_id or 1)
        attempt = tables.Attempt(
            job_id=job_id, number=len(tries) + 1, device_id=device.id, host="local", token=0, phase="verdict",
            created_at=now, workflow_id=f"w{job_id}-{len(tries)}",
        )  # fmt: skip
        session.add(attempt)
        session.flush()
        holder = f"attempt:{attempt.id}"
        lease = leases.grant(session, device.id, holder, attempt.id, now, now.replace(year=now.year + 1))
        attempt.token, job.state = lease.token, "running"
        if failed:
            session.add(tables.Test(attempt_id=attempt.id, test_id=failed, outcome="failed"))
        set_outcome(attempt, outcome, f"because of {outcome.value}", cause)
        leases.end(session, lease.id, now, "cleaned")
        close(session, attempt, now)


def jobs(db: Database) -> list[tables.Job]:
    with db.read() as session:
        return list(session.scalars(select(tables.Job).order_by(tables.Job.id)))


def run_row(db: Database) -> tables.Run:
    with db.read() as session:
        return session.get_one(tables.Run, 1)


def test_a_run_that_loses_too_many_devices_stops_trying_and_says_so(farm: Database) -> None:
    for n in range(5):
        add_device(farm, f"d{n}")
    start_run(farm)
    for job_id in (1, 2):
        attempt_ends(farm, job_id, Outcome.DEVICE_LOST, Cause.GONE)
    assert run_row(farm).gave_up is None
    assert jobs(farm)[0].state == "queued"
    attempt_ends(farm, 3, Outcome.DEVICE_LOST, Cause.GONE)
    run = run_row(farm)
    assert "3 of 5 devices were lost" in str(run.gave_up)
    assert (run.state, run.outcome) == ("ended", "device-lost")
    reasons = [str(job.wait_reason) for job in jobs(farm)]
    assert all("the run gave up" in reason for reason in reasons)
    assert [reason.startswith("not tried again") for reason in reasons] == [True, True, True, False, False]
    assert [job.outcome for job in jobs(farm)] == ["device-lost"] * 3 + ["infra-error"] * 2


def test_a_job_that_runs_goes_on_when_its_run_gives_up_and_its_pass_counts(farm: Database) -> None:
    for n in range(4):
        add_device(farm, f"d{n}")
    start_run(farm)
    with farm.session() as session:
        session.get_one(tables.Job, 4).state = "running"
    for job_id in (1, 2, 3):
        attempt_ends(farm, job_id, Outcome.DEVICE_LOST, Cause.GONE)
    assert (run_row(farm).state, jobs(farm)[3].state) == ("running", "running")
    attempt_ends(farm, 4, Outcome.PASSED)
    assert (jobs(farm)[3].outcome, run_row(farm).state) == ("passed", "ended")


def test_devices_that_an_operator_took_are_no_errors(farm: Database) -> None:
    add_device(farm, "d0")
    start_run(farm)
    for _ in range(5):
        attempt_ends(farm, 1, Outcome.INFRA_ERROR, Cause.PREEMPTED)
    assert run_row(farm).gave_up is None
    assert jobs(farm)[0].state == "queued"


def test_a_failure_of_the_engine_is_run_again_on_a_second_device_of_the_model(farm: Database) -> None:
    for serial, model in (("d0", "Pixel 8"), ("d1", "Pixel 8"), ("d2", "RK3568")):
        add_device(farm, serial, model=model)
    start_run(farm, confirm=True, selector="model='Pixel 8'", mode="any")
    attempt_ends(farm, 1, Outcome.FAILED, failed=TEST)
    first, second = jobs(farm)
    assert (second.confirms_job_id, second.device_id, second.tests) == (1, 2, [TEST])
    assert "job 2 runs it again on d1" in str(first.wait_reason)
    assert run_row(farm).state == "running" or run_row(farm).state == "queued"
    attempt_ends(farm, 2, Outcome.PASSED)
    assert "not confirmed: it passed on d1" in str(jobs(farm)[0].wait_reason)
    assert (run_row(farm).state, run_row(farm).outcome) == ("ended", "failed")
    assert len(jobs(farm)) == 2


def test_a_failure_that_shows_on_the_second_device_too_is_confirmed(farm: Database) -> None:
    for serial in ("d0", "d1"):
        add_device(farm, serial, model="Pixel 8")
    start_run(farm, confirm=True, mode="any")
    attempt_ends(farm, 1, Outcome.CRASHED)
    attempt_ends(farm, 2, Outcome.CRASHED)
    assert "confirmed: crashed on d1 too" in str(jobs(farm)[0].wait_reason)
    assert len(jobs(farm)) == 2  # a confirmation is not confirmed


def test_without_a_second_device_the_failure_stands_and_says_that_it_is_not_confirmed(farm: Database) -> None:
    add_device(farm, "d0", model="Pixel 8")
    add_device(farm, "d1", model="RK3568")
    start_run(farm, confirm=True, mode="any")
    attempt_ends(farm, 1, Outcome.FAILED)
    assert "there is no second usable device of the model" in str(jobs(farm)[0].wait_reason)
    assert run_row(farm).outcome == "failed"


@pytest.mark.parametrize("confirm", [True, False])
def test_what_is_not_the_engines_or_was_not_asked_for_is_not_confirmed(farm: Database, confirm: bool) -> None:
    for serial in ("d0", "d1"):
        add_device(farm, serial, model="Pixel 8")
    start_run(farm, confirm=confirm, mode="any")
    attempt_ends(farm, 1, Outcome.TIMED_OUT if confirm else Outcome.FAILED)
    assert len(jobs(farm)) == 1
