"""How far a job is: its distinct tests that have ended once and for all, over those that are known.

It looks at every try of the job: what a lost device had finished stays done in the next try, and what never ran is
never counted, however the attempt ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import null, select
from sqlalchemy.orm import Session

from farm.domain.causes import cause_of, ruling
from farm.domain.jobs import NO_FAULT, AttemptEnd, TestEnd, carried
from farm.domain.outcomes import Outcome, Retry, State, TestOutcome
from farm.store import tables
from farm.store.reads.results import TestCell


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` tests of `known`. `known` is None until a try has collected its tests: that is not 0."""

    done: int
    known: int | None


def is_over(attempt: tables.Attempt) -> bool:
    """Whether none of the attempt's tests runs or will run in it; collecting and cleaning may still go on."""
    return attempt.outcome is not None or attempt.ended_at is not None


def runs_again(job: tables.Job, attempt: tables.Attempt) -> bool:
    """Whether what this attempt, which is over, left undone will be run by a later one."""
    if job.state == State.ENDED.value:
        return False
    try:
        rule = ruling(Outcome(attempt.outcome or ""), cause_of(attempt.cause))
        return attempt.ended_at is not None or rule.retry is not Retry.NO
    except ValueError:  # of a newer farm
        return True


def progress(job: tables.Job, tried: Sequence[tables.Attempt], tests: Mapping[int, Sequence[TestCell]]) -> Progress:
    """Of one job with these attempts, oldest first, and their tests by attempt id."""
    known = {cell.test_id for attempt in tried for cell in tests.get(attempt.id, ())}
    if not known:
        return Progress(0, None)
    done = set(carried([_end(attempt, tests.get(attempt.id, ())) for attempt in tried if attempt.outcome]))
    last, over = tried[-1], job.state == State.ENDED.value
    if over or not is_over(last) or not runs_again(job, last):
        done |= {c.test_id for c in tests.get(last.id, ()) if c.outcome is not None and (over or _counts(c))}
    return Progress(len(done), len(known))


def total(parts: Sequence[Progress]) -> Progress:
    """Of a run: its jobs added up; `known` of those that are known."""
    known = [part.known for part in parts if part.known is not None]
    return Progress(sum(part.done for part in parts), sum(known) if known else None)


def of_jobs(session: Session, job_ids: Sequence[int]) -> dict[int, Progress]:
    """Job id → its progress. Three queries."""
    j, a, t = tables.Job, tables.Attempt, tables.Test
    jobs = list(session.scalars(select(j).where(j.id.in_(job_ids))))
    tried: dict[int, list[tables.Attempt]] = {}
    for attempt in session.scalars(select(a).where(a.job_id.in_(job_ids)).order_by(a.job_id, a.number)):
        tried.setdefault(attempt.job_id, []).append(attempt)
    ids = [attempt.id for attempts in tried.values() for attempt in attempts]
    query = select(t.attempt_id, t.test_id, t.outcome, t.cause, t.began_at.is_not(None), t.duration_s, null())
    tests: dict[int, list[TestCell]] = {}
    for row in session.execute(query.where(t.attempt_id.in_(ids))):
        tests.setdefault(row[0], []).append(TestCell(*row))
    return {job.id: progress(job, tried.get(job.id, []), tests) for job in jobs}


def _counts(cell: TestCell) -> bool:
    """Whether the end of a test stands while its attempt goes on: one that the farm or the device spoilt does not."""
    return cell.cause not in {cause.value for cause in NO_FAULT}


def _end(attempt: tables.Attempt, cells: Sequence[TestCell]) -> AttemptEnd:
    try:
        outcome = Outcome(attempt.outcome or "")
        ended = [cell for cell in cells if cell.outcome is not None]
        ends = [TestEnd(c.test_id, TestOutcome(str(c.outcome)), Outcome(c.cause) if c.cause else None) for c in ended]
    except ValueError:  # of a newer farm
        return AttemptEnd(Outcome.INFRA_ERROR, attempt.device_id)
    return AttemptEnd(outcome, attempt.device_id, tests=tuple(ends))
