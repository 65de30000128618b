"""One attempt: phases, tests, artifacts, incidents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.outcomes import Phase
from farm.store import series, tables
from farm.store.reads.results import MeasurementRow, TestCell, measurements, result_word, test_cells
from farm.store.reads.runs import RunRow, run_query, run_rows
from farm.store.reads.shared import (
    TEMPERATURE,
    IncidentRow,
    Series,
    device_refs,
    incident_rows,
    stored_points,
    temperature_events,
    thin,
)
from farm.store.reads.tries import AttemptRow, attempt_row, attempts_of, phase_spans

MAX_INCIDENTS = 200
MAX_ARTIFACTS = 500
MAX_TESTS = 5000


@dataclass(frozen=True, slots=True)
class TestRow:
    __test__ = False

    test_id: str
    state: str  # as of a matrix cell
    outcome: str | None
    cause: str | None
    began_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    message: str | None
    detail: str | None

    @property
    def result(self) -> str:
        return result_word(self.state, self.outcome, self.cause)


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    id: int
    attempt_id: int
    test_id: str | None
    name: str
    media_type: str
    bytes: int
    sha256: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseRow:
    token: int
    granted_at: datetime
    heartbeat_by: datetime
    ends_at: datetime
    released_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None


@dataclass(frozen=True, slots=True)
class SeriesBuckets:
    """A series as stretches of equal length."""

    name: str
    unit: str
    buckets: tuple[series.Bucket, ...]


@dataclass(frozen=True, slots=True)
class AttemptDetail:
    at: datetime
    run: RunRow
    attempt: AttemptRow
    lease: LeaseRow | None
    tests: tuple[TestRow, ...]
    measurements: tuple[MeasurementRow, ...]
    incidents: tuple[IncidentRow, ...]
    artifacts: tuple[ArtifactRow, ...]
    series: tuple[Series, ...]
    absent: tuple[tuple[str, str], ...]  # (series, why it is not there); "sampler": how the device was sampled
    siblings: tuple[tuple[int, int, str | None], ...]  # (attempt id, number, outcome) of the same job
    deployment: str | None = None  # of farm.domain.deployments; None: the attempt says nothing of it
    peak_bytes: int | None = None  # the most memory that its engine had; None: not measured
    checks: tuple[dict[str, Any], ...] = ()  # of the precheck: name, ok, figure, remedy


def attempt(session: Session, attempt_id: int, now: datetime) -> AttemptDetail | None:
    """One attempt in full; None when there is none. A constant number of queries."""
    row = session.get(tables.Attempt, attempt_id)
    if row is None:
        return None
    job = session.get_one(tables.Job, row.job_id)
    (run,) = run_rows(session, run_query().where(tables.Run.id == job.run_id))
    tried = attempts_of(session, [row.job_id])
    incidents = list(
        session.scalars(
            select(tables.Incident)
            .where(tables.Incident.attempt_id == attempt_id)
            .order_by(tables.Incident.at, tables.Incident.id)
            .limit(MAX_INCIDENTS)
        )
    )
    devices = device_refs(session, {row.device_id, *(i.device_id for i in incidents)})
    cells = test_cells(session, [attempt_id]).get(attempt_id, [])
    spans = phase_spans(session, [attempt_id]).get(attempt_id, ())
    return AttemptDetail(
        at=now,
        run=run,
        attempt=attempt_row(row, devices[row.device_id], spans, cells, job, tried[-1]),
        lease=_lease(session, attempt_id),
        tests=_tests(session, row),
        measurements=tuple(measurements(session, [attempt_id])),
        incidents=incident_rows(incidents, devices),
        artifacts=tuple(artifacts(session, attempt_id)),
        series=_series(session, row, now),
        absent=absences(session, attempt_id),
        siblings=tuple((a.id, a.number, a.outcome) for a in tried),
        deployment=row.deployment,
        peak_bytes=row.peak_bytes,
        checks=_checks(session, attempt_id),
    )


def _checks(session: Session, attempt_id: int) -> tuple[dict[str, Any], ...]:
    first = session.get(tables.AttemptPhase, (attempt_id, Phase.PRECHECK.value))
    found = (first.detail or {}).get("checks") if first is not None else None
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def artifacts(session: Session, attempt_id: int) -> list[ArtifactRow]:
    """What was collected, by name."""
    a = tables.Artifact
    rows = session.scalars(select(a).where(a.attempt_id == attempt_id).order_by(a.name).limit(MAX_ARTIFACTS))
    return [_artifact(row) for row in rows]


def artifact(session: Session, artifact_id: int) -> ArtifactRow | None:
    """One artifact's row; its bytes are in the artifact store under `sha256`."""
    row = session.get(tables.Artifact, artifact_id)
    return _artifact(row) if row else None


def _artifact(row: tables.Artifact) -> ArtifactRow:
    return ArtifactRow(row.id, row.attempt_id, row.test_id, row.name, row.media_type, row.bytes, row.sha256, row.at)


def _lease(session: Session, attempt_id: int) -> LeaseRow | None:
    lease = tables.Lease
    row = session.scalars(
        select(lease).where(lease.attempt_id == attempt_id).order_by(lease.id.desc()).limit(1)
    ).first()
    if row is None:
        return None
    return LeaseRow(
        row.token,
        row.granted_at,
        row.heartbeat_by,
        row.ends_at,
        row.released_at,
        row.ended_at,
        row.end_reason,
    )


def _tests(session: Session, attempt: tables.Attempt) -> tuple[TestRow, ...]:
    over = attempt.outcome is not None or attempt.ended_at is not None
    t = tables.Test
    query = select(t).where(t.attempt_id == attempt.id).order_by(t.ordinal, t.test_id).limit(MAX_TESTS)
    return tuple(
        TestRow(
            test_id=row.test_id,
            state=TestCell(
                row.attempt_id, row.test_id, row.outcome, row.cause, row.began_at is not None, row.duration_s, None
            ).state(over),
            outcome=row.outcome,
            cause=row.cause,
            began_at=row.began_at,
            ended_at=row.ended_at,
            duration_s=row.duration_s,
            message=row.message,
            detail=row.detail,
        )
        for row in session.scalars(query)
    )


def _series(session: Session, row: tables.Attempt, now: datetime) -> tuple[Series, ...]:
    """The temperature first (the attempt's own, else the device's readings while it lasted), then the rest by name.

    What tests and sampler recorded; each chunk is bounded, and so is their number.
    """
    found = {(one.name, one.unit): one for one in series.read(session, [row.id])}
    own = found.pop((TEMPERATURE, "°C"), None)
    heat = () if own is None or len(own.times) < 2 else stored_points(own)
    if not heat:
        history = temperature_events(session, [row.device_id], row.created_at, row.ended_at or now)
        heat = thin(history.get(row.device_id, []))
    rest = (Series(*key, stored_points(one)) for key, one in sorted(found.items()))
    return (*((Series(TEMPERATURE, "°C", heat),) if heat else ()), *rest)


def absences(session: Session, attempt_id: int) -> tuple[tuple[str, str], ...]:
    """(series, why it is not there) of an attempt; `sampler`: how the device was sampled."""
    a = tables.SeriesAbsence
    query = select(a.name, a.reason).where(a.attempt_id == attempt_id).order_by(a.name)
    return tuple((name, reason) for name, reason in session.execute(query))


def series_between(
    session: Session, attempt_id: int, name: str | None, since: datetime | None, until: datetime | None, buckets: int
) -> list[SeriesBuckets]:
    """An attempt's series, downsampled over one span that all of them share: what was asked for, else all there is."""
    found = series.read(session, [attempt_id], name=name, since=since, until=until)
    ends = [moment for one in found for moment in (float(one.times[0]), float(one.times[-1]))]
    if not ends:
        return []
    begin = min(ends) if since is None else since.timestamp()
    end = max(ends) if until is None else until.timestamp()
    return [
        SeriesBuckets(one.name, one.unit, tuple(series.downsampled(one.times, one.values, buckets, begin, end)))
        for one in found
    ]
