"""What a run has cost so far in errors and devices, and the end of its tries when that is too much."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.causes import Cause
from farm.domain.jobs import job_outcome
from farm.domain.outcomes import Outcome, State, TestOutcome
from farm.domain.persistence import why_give_up
from farm.store import runs, tables
from farm.store.bus import touch

#: Ends of an attempt that are an error of their own when no test of it ended in one.
_SPOILT = (Outcome.DEPLOY_FAILED.value, Outcome.INFRA_ERROR.value)


def stop_trying(session: Session, run: tables.Run, now: datetime) -> str | None:
    """End every waiting job of a run that has had too many errors or lost too many devices; why, or None."""
    if run.gave_up is None:
        run.gave_up = _why(session, run.id)
        if run.gave_up is None:
            return None
        touch(session, "run", run.id, at=now, run_id=run.id)
    waiting = select(tables.Job).where(tables.Job.run_id == run.id, tables.Job.state == State.QUEUED.value)
    for job in session.scalars(waiting.order_by(tables.Job.id)).all():
        end_for_good(session, job, run.gave_up, now)
    return run.gave_up


def end_for_good(session: Session, job: tables.Job, why: str, now: datetime) -> None:
    """A job whose run gave up: what its tries said stands; one that had none was not tried."""
    ends = runs.attempt_ends(session, job.id)
    words = "not tried again" if ends else "not tried"
    outcome = job_outcome(ends) if ends else Outcome.INFRA_ERROR
    runs.end_job(session, job, outcome, f"{words}: the run gave up: {why}", now)


def _why(session: Session, run_id: int) -> str | None:
    a, j, t = tables.Attempt, tables.Job, tables.Test
    attempts = session.execute(
        select(a.id, a.device_id, a.outcome)
        .join(j, j.id == a.job_id)
        .where(j.run_id == run_id, a.cause.is_distinct_from(Cause.PREEMPTED.value))
    ).all()
    ids = [row.id for row in attempts]
    spoilt = session.execute(
        select(t.attempt_id, func.count())
        .where(
            t.attempt_id.in_(ids),
            t.outcome == TestOutcome.ERROR.value,
            t.cause.is_(None) | t.cause.not_in([Outcome.DEVICE_LOST.value, Outcome.CANCELLED.value]),
        )
        .group_by(t.attempt_id)
    ).all()
    errors = {row[0]: int(row[1]) for row in spoilt}
    silent = sum(1 for row in attempts if row.outcome in _SPOILT and row.id not in errors)
    known = select(a.job_id, t.test_id).join(a, a.id == t.attempt_id).where(t.attempt_id.in_(ids)).distinct()
    tests = session.scalar(select(func.count()).select_from(known.subquery())) or 0
    pinned = set(session.scalars(select(j.device_id).where(j.run_id == run_id, j.device_id.is_not(None))))
    return why_give_up(
        errors=sum(errors.values()) + silent,
        tests=tests,
        lost=len({row.device_id for row in attempts if row.outcome == Outcome.DEVICE_LOST.value}),
        devices=len(pinned | {row.device_id for row in attempts}),
    )
