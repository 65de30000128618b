"""Attempts as rows of a run or a page of their own: one try of a job, with its phases and test counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.causes import end_words
from farm.domain.outcomes import Phase, State
from farm.store import tables
from farm.store.reads.results import TestCell
from farm.store.reads.shared import DeviceRef


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """When a phase of an attempt began and ended."""

    phase: str
    began_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try of a job. `late_*` is a truth that came after the first cause; with `late_at`, from its lost `host`."""

    id: int
    job_id: int
    number: int
    device: DeviceRef
    host: str
    phase: str
    outcome: str | None
    reason: str | None
    late_outcome: str | None
    late_reason: str | None
    late_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_at: datetime | None
    waiting_for: str | None
    phases: tuple[PhaseSpan, ...]
    tests: dict[str, int]  # by result: what a test died of or its outcome, else running, waiting, unfinished, not-run
    retried: bool  # a later attempt of the same job exists
    retry_reason: str | None  # why the job is tried again after it; None: it is not
    blame: str | None = None  # whose it is: engine, suite, device, host, farm, user, nobody
    cause: str | None = None  # of `farm.domain.causes`, where the outcome alone does not say whose it is
    words: str | None = None  # its end for people: `the host failed: the runner died`


def attempts_of(session: Session, job_ids: Sequence[int]) -> list[tables.Attempt]:
    """Attempts of these jobs, oldest first."""
    a = tables.Attempt
    return list(session.scalars(select(a).where(a.job_id.in_(job_ids)).order_by(a.job_id, a.number)))


def phase_spans(session: Session, attempt_ids: Sequence[int]) -> dict[int, tuple[PhaseSpan, ...]]:
    """Attempt id → its phases in order of time."""
    p = tables.AttemptPhase
    query = select(p.attempt_id, p.phase, p.began_at, p.ended_at).where(p.attempt_id.in_(attempt_ids))
    found: dict[int, list[PhaseSpan]] = {}
    for attempt_id, phase, began_at, ended_at in session.execute(query.order_by(p.began_at)):
        found.setdefault(attempt_id, []).append(PhaseSpan(phase, began_at, ended_at))
    order = [phase.value for phase in Phase]
    return {
        attempt_id: tuple(
            sorted(spans, key=lambda s: (s.began_at, order.index(s.phase) if s.phase in order else len(order)))
        )
        for attempt_id, spans in found.items()
    }


def attempt_row(
    row: tables.Attempt,
    device: DeviceRef,
    spans: tuple[PhaseSpan, ...],
    tests: Sequence[TestCell],
    job: tables.Job,
    last: tables.Attempt,
) -> AttemptRow:
    """`last`: the newest attempt of the same job."""
    over = row.outcome is not None or row.ended_at is not None
    retried = row.id != last.id
    again = retried or (row.ended_at is not None and job.state == State.QUEUED.value)
    return AttemptRow(
        id=row.id,
        job_id=row.job_id,
        number=row.number,
        device=device,
        host=row.host,
        phase=row.phase,
        outcome=row.outcome,
        reason=row.reason,
        late_outcome=row.late_outcome,
        late_reason=row.late_reason,
        late_at=row.late_at,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        cancel_at=row.cancel_at,
        waiting_for=row.waiting_for,
        phases=spans,
        tests=dict(Counter(test.result(over) for test in tests)),
        retried=retried,
        retry_reason=retry_reason(row.outcome, row.cause, row.reason) if again else None,
        blame=row.blame,
        cause=row.cause,
        words=None if row.outcome is None else end_words(row.outcome, row.cause),
    )


def retry_reason(outcome: str | None, cause: str | None, reason: str | None) -> str:
    """`the device went away (husky-v1: not listed by adb)`: what ended an attempt, for who reads of the next one."""
    words = end_words(outcome, cause)
    return f"{words} ({reason})" if reason else words
