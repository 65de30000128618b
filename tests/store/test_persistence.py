"""What a run has cost so far is counted alike on every database."""

from __future__ import annotations

from farm.store import persistence, tables
from farm.store.db import Database
from tests.work.factories import add_device


def spoilt_run(db: Database, lost: int) -> None:
    """A run over five devices: one attempt that was preempted, one infra-error, and so many lost ones."""
    for n in range(5):
        add_device(db, f"d{n}")
    with db.session() as session:
        now = db.now(session)
        session.add(
            tables.Bundle(hash="b", name="b", version="1", adapter="events", bytes=1, created_at=now, manifest={})
        )
        session.add(tables.SuitePack(hash="p", name="p", bytes=1, created_at=now, manifest={}))
        session.flush()
        run = tables.Run(
            title="r", klass="manual", created_at=now, bundle_hash="b", pack_hash="p", suites=["smoke"], selector="*",
            request={},
        )  # fmt: skip
        session.add(run)
        session.flush()
        ends = [("infra-error", "preempted"), ("infra-error", "adb-server"), *[("device-lost", "gone")] * lost]
        for n, (outcome, cause) in enumerate(ends):
            job = tables.Job(
                run_id=run.id, ordinal=n, selector="*", device_id=n % 5 + 1, suites=["smoke"], klass="manual",
                queued_at=now, state="queued",
            )  # fmt: skip
            session.add(job)
            session.flush()
            attempt = tables.Attempt(
                job_id=job.id, number=1, device_id=n % 5 + 1, host="local", token=n, phase="done", outcome=outcome,
                cause=cause, created_at=now, workflow_id=f"w{n}",
            )  # fmt: skip
            session.add(attempt)
            session.flush()
            for test, end, why in (("t1", "passed", None), ("t2", "error", outcome)):
                session.add(tables.Test(attempt_id=attempt.id, test_id=test, outcome=end, cause=why))


def why(db: Database) -> str | None:
    with db.session() as session:
        return persistence.stop_trying(session, session.get_one(tables.Run, 1), db.now(session))


def test_a_run_goes_on_with_two_lost_devices(db: Database) -> None:
    spoilt_run(db, lost=2)
    assert why(db) is None


def test_a_run_gives_up_with_three_and_every_waiting_job_ends(db: Database) -> None:
    spoilt_run(db, lost=3)
    assert why(db) == "3 of 5 devices were lost, more than 2 and 5% of the devices"
    with db.read() as session:
        assert {job.state for job in session.query(tables.Job)} == {"ended"}
        assert session.get_one(tables.Run, 1).state == "ended"
