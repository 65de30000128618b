"""Why a job waits, and how good the farm's estimates were lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.outcomes import State
from farm.domain.scheduling import Index, ahead, why
from farm.domain.scheduling.why import Candidate
from farm.store import queue, tables

#: So many past estimates are judged.
JUDGED = 200
#: How much is looked at to foretell a start: groups of like jobs, summed over the steps.
_LOOKS = 5_000_000
#: So many candidates are named; of the others there is a count.
NAMED = 50


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far first estimates were from what came: half of the last `n` jobs by at most `median_error_s`."""

    n: int
    median_error_s: float | None  # None: nothing to judge by yet


@dataclass(frozen=True, slots=True)
class JobWhy:
    """One job: what it waits for. `position` and what follows are empty once it waits no more."""

    job_id: int
    run_id: int
    klass: str
    team: str
    state: str  # queued, running, ended
    reason: str
    queued_at: datetime
    at: datetime
    position: int | None = None  # from 1, of `waiting`
    waiting: int | None = None
    rivals: int | None = None  # before it, and after one of the same devices
    wants: str | None = None
    candidates: tuple[Candidate, ...] = ()
    more_candidates: int = 0
    share: str | None = None
    expected_s: float | None = None  # how long such a job takes; None: not known
    estimated_start: datetime | None = None  # None: cannot be foretold
    first_estimated_start: datetime | None = None
    accuracy: Accuracy = Accuracy(0, None)


def job_why(session: Session, job_id: int, now: datetime) -> JobWhy | None:
    """None: there is no such job."""
    found = session.execute(
        select(tables.Job, tables.Run)
        .join(tables.Run, tables.Run.id == tables.Job.run_id)
        .where(tables.Job.id == job_id)
    ).first()
    if found is None:
        return None
    job, run = found
    if job.state != State.QUEUED.value:
        return _plain(session, job, run, _not_waiting(session, job), now)
    index, broken = queue.index(session, now)
    key = ("job", job_id)
    if key not in index.jobs:
        reason = next((entry.reason for entry in broken if entry.job_id == job_id), "it does not wait any more")
        return _plain(session, job, run, reason, now)
    told = why.explain(index, key)
    candidates = told.candidates[:NAMED]
    return JobWhy(
        job_id=job_id,
        run_id=run.id,
        klass=job.klass,
        team=run.team,
        state=job.state,
        reason=told.reason,
        queued_at=job.queued_at,
        at=now,
        position=told.position,
        waiting=told.waiting,
        rivals=told.rivals,
        wants=told.wants,
        candidates=candidates,
        more_candidates=max(0, len(told.candidates) - NAMED),
        share=told.share,
        expected_s=index.jobs[key].estimate_s,
        estimated_start=_start(index, job_id),
        first_estimated_start=job.first_estimated_start_at,
        accuracy=accuracy(session),
    )


def accuracy(session: Session) -> Accuracy:
    """First estimates beside when the first attempts really began."""
    job, attempt = tables.Job, tables.Attempt
    query = (
        select(job.first_estimated_start_at, attempt.created_at)
        .join(attempt, (attempt.job_id == job.id) & (attempt.number == 1))
        .where(job.first_estimated_start_at.is_not(None))
        .order_by(attempt.id.desc())
        .limit(JUDGED)
    )
    errors = [abs((began - said).total_seconds()) for said, began in session.execute(query) if said is not None]
    return Accuracy(len(errors), median(errors) if errors else None)


def _start(index: Index, job_id: int) -> datetime | None:
    steps = max(50, min(20_000, _LOOKS // max(1, len(index.all_groups()))))
    start = ahead.estimated_starts(index, [("job", job_id)], steps=steps).get(("job", job_id))
    # what could start this very moment is with the planner already
    return max(start, index.now + timedelta(seconds=1)) if start is not None else None


def _plain(session: Session, job: tables.Job, run: tables.Run, reason: str, now: datetime) -> JobWhy:
    return JobWhy(
        job_id=job.id,
        run_id=run.id,
        klass=job.klass,
        team=run.team,
        state=job.state,
        reason=reason,
        queued_at=job.queued_at,
        at=now,
        first_estimated_start=job.first_estimated_start_at,
        accuracy=accuracy(session),
    )


def _not_waiting(session: Session, job: tables.Job) -> str:
    if job.state == State.ENDED.value:
        return f"it has ended: {job.outcome}" + (f" ({job.wait_reason})" if job.wait_reason else "")
    attempt, device = tables.Attempt, tables.Device
    newest = session.execute(
        select(attempt, device.name)
        .join(device, device.id == attempt.device_id)
        .where(attempt.job_id == job.id)
        .order_by(attempt.number.desc())
        .limit(1)
    ).first()
    if newest is None:
        return "it runs"
    tried, name = newest
    what = f"it runs on {name} (attempt {tried.id}, {tried.phase})"
    return what + (f", which waits for {tried.waiting_for}" if tried.waiting_for else "")
