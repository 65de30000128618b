"""Results of attempts: test matrix, measurements, engine stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.measurements import spread
from farm.domain.outcomes import TestOutcome
from farm.store import tables
from farm.store.reads.shared import DeviceRef, device_refs

#: What one page shows at most; a run that has more is read through the API, attempt by attempt.
MAX_MEASUREMENTS = 5000
MAX_STAGES = 20_000


def result_word(state: str, outcome: str | None, cause: str | None) -> str:
    """The one word for a test: what it died of (crashed, timed-out, …), else its outcome, else its state."""
    if outcome in (TestOutcome.FAILED.value, TestOutcome.ERROR.value) and cause:
        return cause
    return outcome or state


@dataclass(frozen=True, slots=True)
class Cell:
    """One test on one job's device. `cause` is an Outcome when the engine died or the suite was stopped.

    `state`: waiting, running, ended; unfinished (it had begun when its attempt was over); not-run (it had not).
    """

    attempt_id: int
    state: str
    outcome: str | None
    cause: str | None
    duration_s: float | None
    message: str | None

    @property
    def result(self) -> str:
        return result_word(self.state, self.outcome, self.cause)


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
    counts: dict[str, int]  # cells by their `result`


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
    """Every measurement of these attempts, by name, then device, then time. Two queries."""
    m = tables.Measurement
    rows = list(session.scalars(select(m).where(m.attempt_id.in_(attempt_ids)).order_by(m.id).limit(MAX_MEASUREMENTS)))
    devices = device_refs(session, (row.device_id for row in rows))
    shaped = [measurement_row(row, devices[row.device_id]) for row in rows]
    return sorted(shaped, key=lambda r: (r.name, r.test_id, r.device.name, r.at))


def measurement_row(row: tables.Measurement, device: DeviceRef) -> MeasurementRow:
    """The row with its figures, which are of the unmarked values alone."""
    values = tuple(float(v) for v in row.values)
    marks = tuple(None if m is None else str(m) for m in row.marks) or (None,) * len(values)
    clean = [v for v, mark in zip(values, marks, strict=False) if mark is None]
    return MeasurementRow(
        id=row.id,
        attempt_id=row.attempt_id,
        device=device,
        test_id=row.test_id,
        name=row.name,
        unit=row.unit,
        better=row.better,
        values=values,
        marks=marks,
        n=len(clean),
        median=median(clean) if clean else None,
        spread=spread(clean),
        temperature_band=row.temperature_band,
        labels={str(k): str(v) for k, v in (row.labels or {}).items()},
        at=row.at,
    )


@dataclass(frozen=True, slots=True)
class TestCell:
    """A test's row of one attempt, without its long texts."""

    __test__ = False

    attempt_id: int
    test_id: str
    outcome: str | None
    cause: str | None
    began: bool
    duration_s: float | None
    message: str | None

    def state(self, attempt_over: bool, again: bool = False) -> str:
        """ended, running, waiting; its attempt being over: unfinished when it had begun, not-run when it had not.

        `again`: a later attempt of the job will run what this one left.
        """
        if self.outcome is not None:
            return "ended"
        if attempt_over and again:
            return "waiting"
        if attempt_over:
            return "unfinished" if self.began else "not-run"
        return "running" if self.began else "waiting"

    def result(self, attempt_over: bool) -> str:
        return result_word(self.state(attempt_over), self.outcome, self.cause)


def test_cells(session: Session, attempt_ids: Sequence[int]) -> dict[int, list[TestCell]]:
    """Attempt id → its tests in order; messages cut to what a cell shows."""
    t = tables.Test
    query = (
        select(t.attempt_id, t.test_id, t.outcome, t.cause, t.began_at, t.duration_s, func.substr(t.message, 1, 400))
        .where(t.attempt_id.in_(attempt_ids))
        .order_by(t.attempt_id, t.ordinal, t.test_id)
    )
    found: dict[int, list[TestCell]] = {}
    for attempt_id, test_id, outcome, cause, began_at, duration_s, message in session.execute(query):
        cell = TestCell(attempt_id, test_id, outcome, cause, began_at is not None, duration_s, message)
        found.setdefault(attempt_id, []).append(cell)
    return found


def matrix(
    columns: Sequence[tuple[Column, Sequence[tuple[int, bool, bool]]]], tests: dict[int, list[TestCell]]
) -> Matrix:
    """The matrix of these columns, each with its attempts (id, over, run again) oldest first."""
    order: dict[str, None] = {}
    chosen: list[dict[str, Cell]] = []
    for _, attempts in columns:
        cells: dict[str, Cell] = {}
        for attempt_id, over, again in attempts:
            for test in tests.get(attempt_id, ()):
                order.setdefault(test.test_id)
                before = cells.get(test.test_id)
                if test.outcome is None and before is not None and before.state == "ended":
                    continue
                cells[test.test_id] = Cell(
                    attempt_id, test.state(over, again), test.outcome, test.cause, test.duration_s, test.message
                )
        chosen.append(cells)
    rows = tuple(MatrixRow(test_id, tuple(cells.get(test_id) for cells in chosen)) for test_id in order)
    counts = Counter(cell.result for cells in chosen for cell in cells.values())
    return Matrix(tuple(column for column, _ in columns), rows, dict(counts))


def stages(session: Session, attempt_ids: Sequence[int], devices: dict[int, DeviceRef]) -> tuple[StageRow, ...]:
    """Engine stages by device and name, in the order in which they first began."""
    s = tables.Stage
    query = (
        select(s.device_id, s.name, s.duration_s)
        .where(s.attempt_id.in_(attempt_ids))
        .order_by(s.attempt_id, s.seq)
        .limit(MAX_STAGES)
    )
    durations: dict[tuple[int, str], list[float]] = {}
    for device_id, name, duration_s in session.execute(query):
        durations.setdefault((device_id, name), []).append(duration_s)
    return tuple(
        StageRow(devices[device_id], name, len(values), median(values), sum(values))
        for (device_id, name), values in durations.items()
        if device_id in devices
    )
