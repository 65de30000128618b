"""Runs: the list, and one run's header, jobs and attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session, defer

from farm.domain.outcomes import State
from farm.store import tables
from farm.store.reads import progress
from farm.store.reads.progress import Progress
from farm.store.reads.results import (
    Column,
    Matrix,
    MeasurementRow,
    StageRow,
    TestCell,
    matrix,
    measurements,
    stages,
    test_cells,
)
from farm.store.reads.shared import (
    DeviceRef,
    IncidentRow,
    Series,
    device_refs,
    incident_counts,
    incident_rows,
    recorded_temperatures,
    temperature_events,
    thin,
)
from farm.store.reads.tries import AttemptRow, PhaseSpan, attempt_row, attempts_of, phase_spans

#: How many of the newest runs a search by text looks at.
SEARCHED = 5000
#: Incidents that one page shows.
MAX_INCIDENTS = 200


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Jobs of a run by state, and the ended ones by outcome."""

    total: int
    queued: int
    running: int
    ended: int
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the list shows it."""

    id: int
    title: str
    klass: str
    team: str
    created_by: str | None
    created_at: datetime
    state: str
    outcome: str | None
    started_at: datetime | None
    ended_at: datetime | None
    cancel_at: datetime | None
    cancel_by: str | None
    bundle_hash: str
    bundle_name: str
    bundle_version: str
    git_sha: str | None
    pack_hash: str
    pack_name: str
    suites: tuple[str, ...]
    selector: str
    jobs: JobCounts
    virtual: bool  # some of its devices are virtual


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, newest first; `before` asks for the next (older) one, None when there is none."""

    rows: tuple[RunRow, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """One device slot of the run and its attempts, oldest first. `device` None: not pinned and not yet planned."""

    id: int
    ordinal: int
    device: DeviceRef | None
    selector: str
    state: str
    outcome: str | None
    queued_at: datetime
    wait_reason: str | None
    attempts: tuple[AttemptRow, ...]
    progress: Progress
    confirms_job_id: int | None = None  # runs that job's failure again on a second device; counts for nothing


@dataclass(frozen=True, slots=True)
class RunDetail:
    """Everything that the page of one run shows."""

    at: datetime
    run: RunRow
    progress: Progress  # of all its jobs
    jobs: tuple[JobRow, ...]
    matrix: Matrix
    measurements: tuple[MeasurementRow, ...]
    stages: tuple[StageRow, ...]
    incidents: tuple[IncidentRow, ...]  # the first of them
    incident_counts: dict[int, dict[str, int]]  # by attempt id and class: all of them
    temperatures: dict[int, Series]  # by attempt id: readings while it ran
    queue_seconds: float | None  # from submission to the first attempt's start; None: not started
    device_seconds: float  # leased time of its attempts so far
    gave_up: str | None = None  # why it stopped trying


def runs(
    session: Session,
    *,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
    text: str | None = None,
    team: str | None = None,
) -> RunPage:
    """Runs by id, newest first. `text` looks in title, bundle and submitter of the newest few thousand.

    `limit` is held within 1..200. Four queries, none of which reads more than a page of runs (with `text`: the newest
    `SEARCHED` runs).
    """
    limit = max(1, min(limit, 200))
    run, bundle = tables.Run, tables.Bundle
    query = run_query().order_by(run.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(run.state == state)
    if before is not None:
        query = query.where(run.id < before)
    if team is not None:
        query = query.where(run.team == team)
    if text:
        newest = select(func.max(run.id)).scalar_subquery()
        hit = or_(
            run.title.icontains(text, autoescape=True),
            bundle.name.icontains(text, autoescape=True),
            run.created_by.icontains(text, autoescape=True),
            *([run.id == int(text)] if text.isascii() and text.isdigit() and len(text) < 16 else []),
        )
        query = query.where(run.id > newest - SEARCHED, hit)
    rows = run_rows(session, query)
    more = len(rows) > limit
    return RunPage(tuple(rows[:limit]), rows[limit - 1].id if more else None)


def run(session: Session, run_id: int, now: datetime) -> RunDetail | None:
    """One run in full; None when there is none. A constant number of queries."""
    found = run_rows(session, run_query().where(tables.Run.id == run_id))
    if not found:
        return None
    job_rows = list(session.scalars(select(tables.Job).where(tables.Job.run_id == run_id).order_by(tables.Job.ordinal)))
    tried = attempts_of(session, [job.id for job in job_rows])
    attempt_ids = [row.id for row in tried]
    incidents = list(
        session.scalars(
            select(tables.Incident)
            .where(tables.Incident.attempt_id.in_(attempt_ids))
            .order_by(tables.Incident.at, tables.Incident.id)
            .limit(MAX_INCIDENTS)
        )
    )
    device_ids = {row.device_id for row in tried} | {job.device_id for job in job_rows if job.device_id}
    devices = device_refs(session, device_ids | {row.device_id for row in incidents})
    tests = test_cells(session, attempt_ids)
    spans = phase_spans(session, attempt_ids)
    by_job: dict[int, list[tables.Attempt]] = {}
    for row in tried:
        by_job.setdefault(row.job_id, []).append(row)
    jobs = tuple(_job_row(job, by_job.get(job.id, []), devices, tests, spans) for job in job_rows)
    columns = [
        (
            Column(job.id, shown.device, shown.attempts[-1].id if shown.attempts else None),
            [(a.id, progress.is_over(a), progress.runs_again(job, a)) for a in by_job.get(job.id, [])],
        )
        for job, shown in zip(job_rows, jobs, strict=True)
    ]
    first = min((row.started_at for row in tried if row.started_at), default=None)
    return RunDetail(
        at=now,
        run=found[0],
        progress=progress.total([job.progress for job in jobs]),
        jobs=jobs,
        matrix=matrix(columns, tests),
        measurements=tuple(measurements(session, attempt_ids)),
        stages=stages(session, attempt_ids, devices),
        incidents=incident_rows(incidents, devices),
        incident_counts=incident_counts(session, attempt_ids),
        temperatures=_temperatures(session, tried, now),
        queue_seconds=(first - found[0].created_at).total_seconds() if first else None,
        device_seconds=_device_seconds(session, attempt_ids, now),
        gave_up=session.scalar(select(tables.Run.gave_up).where(tables.Run.id == run_id)),
    )


def run_query() -> Select[tables.Run, tables.Bundle, str]:
    """A run with its bundle and its pack's name; `run_rows` shapes the answer."""
    run, bundle, pack = tables.Run, tables.Bundle, tables.SuitePack
    return (
        select(run, bundle, pack.name)
        .join(bundle, bundle.hash == run.bundle_hash)
        .join(pack, pack.hash == run.pack_hash)
        .options(defer(bundle.manifest))
    )


def run_rows(session: Session, query: Select[tables.Run, tables.Bundle, str]) -> list[RunRow]:
    """The runs that `query` (made from `run_query`) finds, with their jobs' counts. Four queries."""
    found = list(session.execute(query))
    ids = [row[0].id for row in found]
    counts = _job_counts(session, ids)
    virtual = _virtual_runs(session, ids)
    return [
        RunRow(
            id=run.id,
            title=run.title,
            klass=run.klass,
            team=run.team,
            created_by=run.created_by,
            created_at=run.created_at,
            state=run.state,
            outcome=run.outcome,
            started_at=run.started_at,
            ended_at=run.ended_at,
            cancel_at=run.cancel_at,
            cancel_by=run.cancel_by,
            bundle_hash=run.bundle_hash,
            bundle_name=bundle.name,
            bundle_version=bundle.version,
            git_sha=bundle.git_sha,
            pack_hash=run.pack_hash,
            pack_name=pack_name,
            suites=tuple(str(s) for s in run.suites),
            selector=run.selector,
            jobs=counts.get(run.id, JobCounts(0, 0, 0, 0, {})),
            virtual=run.id in virtual,
        )
        for run, bundle, pack_name in found
    ]


def _job_counts(session: Session, run_ids: Sequence[int]) -> dict[int, JobCounts]:
    j = tables.Job
    query = (
        select(j.run_id, j.state, j.outcome, func.count())
        .where(j.run_id.in_(run_ids))
        .group_by(j.run_id, j.state, j.outcome)
    )
    states: dict[int, Counter[str]] = {}
    outcomes: dict[int, Counter[str]] = {}
    for run_id, state, outcome, count in session.execute(query):
        states.setdefault(run_id, Counter())[state] += count
        if outcome is not None:
            outcomes.setdefault(run_id, Counter())[outcome] += count
    return {
        run_id: JobCounts(
            total=sum(by_state.values()),
            queued=by_state[State.QUEUED.value],
            running=by_state[State.RUNNING.value],
            ended=by_state[State.ENDED.value],
            outcomes=dict(outcomes.get(run_id, {})),
        )
        for run_id, by_state in states.items()
    }


def _virtual_runs(session: Session, run_ids: Sequence[int]) -> set[int]:
    """Those runs that used, or are pinned to, a virtual device."""
    j, a, d = tables.Job, tables.Attempt, tables.Device
    pinned = select(j.run_id).join(d, d.id == j.device_id).where(j.run_id.in_(run_ids), d.virtual)
    tried = (
        select(j.run_id).join(a, a.job_id == j.id).join(d, d.id == a.device_id).where(j.run_id.in_(run_ids), d.virtual)
    )
    return set(session.scalars(pinned.union(tried)))


def _job_row(
    job: tables.Job,
    tried: Sequence[tables.Attempt],
    devices: dict[int, DeviceRef],
    tests: dict[int, list[TestCell]],
    spans: dict[int, tuple[PhaseSpan, ...]],
) -> JobRow:
    attempts = tuple(
        attempt_row(row, devices[row.device_id], spans.get(row.id, ()), tests.get(row.id, ()), job, tried[-1])
        for row in tried
    )
    pinned = devices.get(job.device_id) if job.device_id else None
    return JobRow(
        id=job.id,
        ordinal=job.ordinal,
        device=attempts[-1].device if attempts else pinned,
        selector=job.selector,
        state=job.state,
        outcome=job.outcome,
        queued_at=job.queued_at,
        wait_reason=job.wait_reason,
        attempts=attempts,
        progress=progress.progress(job, tried, tests),
        confirms_job_id=job.confirms_job_id,
    )


def _temperatures(session: Session, tried: Sequence[tables.Attempt], now: datetime) -> dict[int, Series]:
    """Attempt id → the temperature while the attempt lasted: its own series, else what the device's history has."""
    own = recorded_temperatures(session, (row.id for row in tried))
    spans = {row.id: (row.device_id, row.created_at, row.ended_at or now) for row in tried}
    since = min((began for _, began, _ in spans.values()), default=now)
    until = max((ended for _, _, ended in spans.values()), default=now)
    heat = temperature_events(session, (device_id for device_id, _, _ in spans.values()), since, until)
    found: dict[int, Series] = {}
    for attempt_id, (device_id, began, ended) in spans.items():
        points = own.get(attempt_id) or [p for p in heat.get(device_id, ()) if began <= p.at <= ended]
        if points:
            found[attempt_id] = Series("temperature", "°C", thin(points))
    return found


def _device_seconds(session: Session, attempt_ids: Sequence[int], now: datetime) -> float:
    lease = tables.Lease
    query = select(lease.granted_at, lease.ended_at).where(lease.attempt_id.in_(attempt_ids))
    return sum(((ended or now) - granted).total_seconds() for granted, ended in session.execute(query))
