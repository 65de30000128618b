"""What the planner's decisions do to rows: a job starts, or is given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from farm.domain.jobs import job_outcome, limits_of, settle_of
from farm.domain.leases import HARD_END
from farm.domain.outcomes import Outcome, Phase, State
from farm.domain.words import count
from farm.store import leases, runs, tables
from farm.store.bus import touch
from farm.work.settings import WorkSettings

#: Puts an attempt's workflow into its host's queue, inside the session's own transaction.
Enqueue = Callable[[Session, tables.Attempt], None]


def start_attempt(
    session: Session, job: tables.Job, device_id: int, now: datetime, settings: WorkSettings, enqueue: Enqueue
) -> tables.Attempt:
    """Lease, attempt and queue entry, all in the session's transaction. Raises AlreadyHeld: roll it back."""
    run = session.get_one(tables.Run, job.run_id)
    pack = session.get_one(tables.SuitePack, run.pack_hash).manifest
    last = runs.last_attempts(session, [job.id]).get(job.id)
    limits = limits_of(pack, job.suites, settings.suite_limit_s, settings.silence_limit_s)
    settle_s = settle_of(pack, job.suites).get("timeout_s", settings.settle_limit_s)
    hard_end = now + min(HARD_END, timedelta(seconds=limits["attempt_s"] + settle_s + 1800))
    attempt = tables.Attempt(
        job_id=job.id,
        number=1 if last is None else last.number + 1,
        device_id=device_id,
        host=session.get_one(tables.Device, device_id).host,
        token=0,
        phase=Phase.PLANNED.value,
        created_at=now,
        workflow_id=f"job-{job.id}-attempt-{1 if last is None else last.number + 1}",
        waiting_for="its host to take it up",
    )
    session.add(attempt)
    session.flush()
    holder = f"attempt:{attempt.id}"
    who = {"team": run.team, "user": run.created_by}
    attempt.token = leases.grant(session, device_id, holder, attempt.id, now, hard_end, **who).token
    job.state, job.wait_reason = State.RUNNING.value, None
    enqueue(session, attempt)
    touch(session, "job", job.id, at=now, run_id=run.id, device_id=device_id)
    touch(session, "attempt", attempt.id, at=now, run_id=run.id, device_id=device_id)
    session.flush()
    runs.settle_run(session, run.id, now)
    return attempt


def give_up(session: Session, job: tables.Job, reason: str, now: datetime) -> None:
    """A retry whose device did not come back ends as its tries so far say."""
    ends = runs.attempt_ends(session, job.id)
    outcome = job_outcome(ends) if ends else Outcome.DEVICE_LOST
    left = len(runs.known_tests(session, job.id) - {t.test for e in ends for t in e.tests if t.finished()})
    tail = f"; {count(left, 'test was', 'tests were')} not finished" if left else ""
    runs.end_job(session, job, outcome, f"{reason} after {count(len(ends), 'try', 'tries')}{tail}", now)
