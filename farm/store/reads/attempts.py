"""One attempt: phases, tests, artifacts, incidents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from farm.store.reads.results import MeasurementRow
from farm.store.reads.runs import AttemptRow, RunRow
from farm.store.reads.shared import IncidentRow, Series


@dataclass(frozen=True, slots=True)
class TestRow:
    __test__ = False

    test_id: str
    state: str  # waiting, running, ended
    outcome: str | None
    cause: str | None
    began_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    message: str | None
    detail: str | None


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
    siblings: tuple[tuple[int, int, str | None], ...]  # (attempt id, number, outcome) of the same job


def attempt(session: Session, attempt_id: int, now: datetime) -> AttemptDetail | None:
    """One attempt in full; None when there is none."""
    raise NotImplementedError


def artifacts(session: Session, attempt_id: int) -> list[ArtifactRow]:
    """What was collected, by name."""
    raise NotImplementedError


def artifact(session: Session, artifact_id: int) -> ArtifactRow | None:
    """One artifact's row; its bytes are in the artifact store under `sha256`."""
    raise NotImplementedError
