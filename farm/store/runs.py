"""Runs, jobs and attempts: finding them, and the roll-up from attempt to job to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from farm.domain.causes import cause_of
from farm.domain.jobs import AttemptEnd, TestEnd
from farm.domain.outcomes import Outcome, Phase, State, TestOutcome, roll_up
from farm.store import tables
from farm.store.bus import touch
from farm.store.locks import hold_run

#: The name of the suite pack that a run takes when it names none.
BUILTIN_PACK = "builtin"


def find_bundle(session: Session, wanted: str) -> tables.Bundle | None:
    """By hash, by the beginning of a hash (8 or more), or the newest of a name."""
    return _find(session, tables.Bundle, wanted)


def find_pack(session: Session, wanted: str | None) -> tables.SuitePack | None:
    """The same for suite packs; None: the built-in one."""
    return _find(session, tables.SuitePack, wanted or BUILTIN_PACK)


_Addressed = TypeVar("_Addressed", tables.Bundle, tables.SuitePack)


def _find(session: Session, table: type[_Addressed], wanted: str) -> _Addressed | None:
    newest = select(table).order_by(table.created_at.desc(), table.hash).limit(1)
    found = session.scalar(newest.where(table.name == wanted))
    if found is None and len(wanted) >= 8 and not set(wanted) - set("0123456789abcdef"):
        found = session.scalar(newest.where(table.hash.startswith(wanted)))
    return found


def attempt_ends(session: Session, job_id: int) -> list[AttemptEnd]:
    """How the job's ended attempts ended, oldest first, with their tests."""
    attempts = session.scalars(
        select(tables.Attempt)
        .where(tables.Attempt.job_id == job_id, tables.Attempt.outcome.is_not(None))
        .order_by(tables.Attempt.number)
    ).all()
    return _ends(session, attempts)


def _ends(session: Session, attempts: Sequence[tables.Attempt]) -> list[AttemptEnd]:
    tests: dict[int, list[TestEnd]] = defaultdict(list)
    rows = session.scalars(
        select(tables.Test)
        .where(tables.Test.attempt_id.in_([a.id for a in attempts]), tables.Test.outcome.is_not(None))
        .order_by(tables.Test.attempt_id, tables.Test.ordinal, tables.Test.test_id)
    )
    for row in rows:
        cause = Outcome(row.cause) if row.cause else None
        tests[row.attempt_id].append(TestEnd(row.test_id, TestOutcome(str(row.outcome)), cause))
    return [
        AttemptEnd(Outcome(a.outcome), a.device_id, a.reason or "", tuple(tests[a.id]), cause_of(a.cause))
        for a in attempts
        if a.outcome
    ]


def known_tests(session: Session, job_id: int) -> set[str]:
    """Every test that an attempt of the job has collected."""
    query = select(tables.Test.test_id).join(tables.Attempt, tables.Attempt.id == tables.Test.attempt_id)
    return set(session.scalars(query.where(tables.Attempt.job_id == job_id)))


def end_job(session: Session, job: tables.Job, outcome: Outcome, reason: str | None, now: datetime) -> None:
    """A job has its outcome; when it was the last one its run has too."""
    job.state, job.outcome, job.wait_reason, job.not_before = State.ENDED.value, outcome.value, reason, None
    touch(session, "job", job.id, at=now, run_id=job.run_id)
    session.flush()
    settle_run(session, job.run_id, now)


def settle_run(session: Session, run_id: int, now: datetime) -> None:
    """The run's state from its jobs': running once one has started, ended with the last."""
    session.flush()
    run = hold_run(session, run_id)
    if run.state == State.ENDED.value:
        return
    j = tables.Job
    rows = session.execute(select(j.state, j.outcome, j.confirms_job_id).where(j.run_id == run_id)).all()
    jobs = [(state, None if confirms else outcome) for state, outcome, confirms in rows]  # shown beside, not counted
    before = run.state
    if all(state == State.ENDED.value for state, _ in jobs):
        run.state, run.ended_at = State.ENDED.value, now
        run.outcome = roll_up(Outcome(outcome) for _, outcome in jobs if outcome).value
    elif any(state == State.RUNNING.value for state, _ in jobs):
        run.state, run.started_at = State.RUNNING.value, run.started_at or now
    if run.state != before:
        touch(session, "run", run_id, at=now, run_id=run_id)


def request_cancel(session: Session, run: tables.Run, by: str | None, now: datetime) -> None:
    """Flag the run and its live attempts; jobs that have not started end at once."""
    if run.cancel_at is None:
        run.cancel_at, run.cancel_by = now, by
    jobs = session.scalars(
        select(tables.Job).where(tables.Job.run_id == run.id, tables.Job.state != State.ENDED.value)
    ).all()
    running = [job.id for job in jobs if job.state == State.RUNNING.value]
    session.execute(
        update(tables.Attempt)
        .where(
            tables.Attempt.job_id.in_(running),
            tables.Attempt.phase != Phase.DONE.value,
            tables.Attempt.cancel_at.is_(None),
        )
        .values(cancel_at=now)
    )
    touch(session, "run", run.id, at=now, run_id=run.id)
    for job in jobs:
        if job.state == State.QUEUED.value:
            end_job(session, job, Outcome.CANCELLED, f"cancelled by {by or 'somebody'} while it waited", now)


def waiting_jobs(session: Session) -> list[tuple[tables.Job, tables.Run]]:
    """Everything that waits for a device."""
    rows = session.execute(
        select(tables.Job, tables.Run)
        .join(tables.Run, tables.Run.id == tables.Job.run_id)
        .where(tables.Job.state == State.QUEUED.value)
        .order_by(tables.Job.id)
    )
    return [(job, run) for job, run in rows]


def last_attempts(session: Session, job_ids: Iterable[int]) -> dict[int, tables.Attempt]:
    """The newest attempt of each of these jobs that has one."""
    rows = session.scalars(
        select(tables.Attempt).where(tables.Attempt.job_id.in_(list(job_ids))).order_by(tables.Attempt.number)
    )
    return {row.job_id: row for row in rows}
