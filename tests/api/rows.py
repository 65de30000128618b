"""Rows for tests of what reads them: one run with one attempt on one device."""

from __future__ import annotations

from farm.store import tables as t
from tests.served import Served


def an_attempt(served: Served, *, ended: bool = False) -> tuple[int, int]:
    """(run id, attempt id) of a new run; device and bundle are made when they are not there."""
    now = served.farm.db.now()
    with served.farm.db.session() as session:
        if session.get(t.Host, "local") is None:
            session.add(t.Host(name="local", seen_at=now, info={}))
            session.add(
                t.Bundle(
                    hash="b" * 64, name="b", version="1", adapter="events", bytes=1, created_at=now,
                    manifest={"files": {"x86_64": {}}, "models": {}},
                )
            )  # fmt: skip
            pack = {"format": 1, "name": "p", "suites": {"smoke": {"path": "smoke", "needs": ""}}}
            session.add(t.SuitePack(hash="p" * 64, name="p", bytes=1, created_at=now, manifest=pack))
            session.flush()
            session.add(t.Device(id=1, serial="s1", name="d1", host="local", seen_at=now, connection="device"))
        state, outcome = ("ended", "passed") if ended else ("running", None)
        run = t.Run(
            title="a run", klass="manual", created_at=now, created_by="tester", bundle_hash="b" * 64,
            pack_hash="p" * 64, suites=["smoke"], selector="*", request={}, state=state, outcome=outcome,
            ended_at=now if ended else None,
        )  # fmt: skip
        session.add(run)
        session.flush()
        job = t.Job(
            run_id=run.id, ordinal=0, selector="*", device_id=1, suites=["smoke"], klass="manual", queued_at=now,
            state=state, outcome=outcome,
        )  # fmt: skip
        session.add(job)
        session.flush()
        attempt = t.Attempt(
            job_id=job.id, number=1, device_id=1, host="local", token=1, phase="done" if ended else "execute",
            outcome=outcome, created_at=now, started_at=now, ended_at=now if ended else None,
            workflow_id=f"w{job.id}",
        )  # fmt: skip
        session.add(attempt)
        session.flush()
        return run.id, attempt.id
