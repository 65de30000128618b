"""Results of attempts: test matrix, measurements, engine stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from farm.store.reads.shared import DeviceRef


@dataclass(frozen=True, slots=True)
class Cell:
    """One test on one job's device. `state`: waiting, running or ended; `cause` is an Outcome when the engine died."""

    attempt_id: int
    state: str
    outcome: str | None
    cause: str | None
    duration_s: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A job's device in the matrix."""

    job_id: int
    device: DeviceRef | None
    attempt_id: int | None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    test_id: str
    cells: tuple[Cell | None, ...]  # one per column; None: not collected there


@dataclass(frozen=True, slots=True)
class Matrix:
    """Tests × devices. A cell is from the last attempt in which the test ended, else from the latest that knows it."""

    columns: tuple[Column, ...]
    rows: tuple[MatrixRow, ...]
    counts: dict[str, int]  # cells by TestOutcome, plus "running" and "waiting"


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """A list of values. `n`, `median` and `spread` ((p90 - p10) / median) are of the unmarked ones; None: none such."""

    id: int
    attempt_id: int
    device: DeviceRef
    test_id: str
    name: str
    unit: str
    better: str
    values: tuple[float, ...]
    marks: tuple[str | None, ...]
    n: int
    median: float | None
    spread: float | None
    temperature_band: str
    labels: dict[str, str]
    at: datetime


@dataclass(frozen=True, slots=True)
class StageRow:
    """An engine stage on one device, over its repetitions in the run."""

    device: DeviceRef
    name: str
    count: int
    median_s: float
    total_s: float


def measurements(session: Session, attempt_ids: Sequence[int]) -> list[MeasurementRow]:
    """Every measurement of these attempts, by name, then device, then time."""
    raise NotImplementedError
