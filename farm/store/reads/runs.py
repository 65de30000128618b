"""Runs: the list, and one run's header, jobs and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from farm.store.reads.results import Matrix, MeasurementRow, StageRow
from farm.store.reads.shared import DeviceRef, IncidentRow, Series


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
class PhaseSpan:
    """When a phase of an attempt began and ended."""

    phase: str
    began_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try of a job. `late_*` is a truth that came after the first cause."""

    id: int
    job_id: int
    number: int
    device: DeviceRef
    phase: str
    outcome: str | None
    reason: str | None
    late_outcome: str | None
    late_reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_at: datetime | None
    waiting_for: str | None
    phases: tuple[PhaseSpan, ...]
    tests: dict[str, int]  # by TestOutcome, plus "running" and "waiting"
    retried: bool  # a later attempt of the same job exists


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


@dataclass(frozen=True, slots=True)
class RunDetail:
    """Everything that the page of one run shows."""

    at: datetime
    run: RunRow
    jobs: tuple[JobRow, ...]
    matrix: Matrix
    measurements: tuple[MeasurementRow, ...]
    stages: tuple[StageRow, ...]
    incidents: tuple[IncidentRow, ...]
    temperatures: dict[int, Series]  # by attempt id: readings while it ran
    queue_seconds: float | None  # from submission to the first attempt's start; None: not started
    device_seconds: float  # leased time of its attempts so far


def runs(
    session: Session,
    *,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
    text: str | None = None,
) -> RunPage:
    """Runs by id, newest first. `text` looks in title, bundle and submitter of the newest few thousand."""
    raise NotImplementedError


def run(session: Session, run_id: int, now: datetime) -> RunDetail | None:
    """One run in full; None when there is none."""
    raise NotImplementedError
