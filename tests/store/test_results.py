"""The journal becomes rows once, whatever it holds and however often it is shipped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from farm.domain.journal import Kind, Record
from farm.store import results, series, tables
from farm.store.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def attempt(db: Database) -> int:
    with db.session() as session:
        session.add(tables.Host(name="local", drained=False, info={}))
        session.flush()
        session.add(tables.Device(id=1, serial="s", name="s", host="local", labels={}, temperature_c=31.0))
        session.add(
            tables.Bundle(hash="b", name="b", version="1", adapter="events", manifest={}, bytes=1, created_at=NOW)
        )
        session.add(tables.SuitePack(hash="p", name="p", manifest={}, bytes=1, created_at=NOW))
        session.flush()
        session.add(
            tables.Run(
                id=1, title="t", klass="manual", created_at=NOW, bundle_hash="b", pack_hash="p", suites=["s"],
                selector="*", request={},
            )
        )  # fmt: skip
        session.flush()
        session.add(tables.Job(id=1, run_id=1, ordinal=0, selector="*", suites=["s"], klass="manual", queued_at=NOW))
        session.flush()
        session.add(
            tables.Attempt(
                id=1, job_id=1, number=1, device_id=1, host="local", token=1, created_at=NOW, workflow_id="w"
            )
        )
    return 1


def record(seq: int, kind: str, **fields: Any) -> Record:
    return Record(seq, NOW.timestamp() + seq, 100.0 + seq, kind, fields)


def ship(db: Database, *records: Record, late: bool = False) -> int:
    with db.session() as session:
        return results.apply(session, session.get_one(tables.Attempt, 1), records, NOW, late=late)


def test_an_incident_stands_for_as_many_as_its_record_says(db: Database, attempt: int) -> None:
    said = {"class": "sandbox-refused", "summary": "open /x: outside of this attempt", "evidence": ""}
    counts = (None, 41, "nonsense", -3, True)
    ship(db, *(record(n, Kind.INCIDENT, **said, count=count) for n, count in enumerate(counts)))
    with db.read() as session:
        assert list(session.scalars(select(tables.Incident.count).order_by(tables.Incident.seq))) == [1, 41, 1, 1, 1]


JOURNAL = (
    record(0, Kind.START, attempt=1, token=1),
    record(1, Kind.COLLECTED, tests=["a.py::x", "a.py::y"]),
    record(2, Kind.TEST_START, test="a.py::x"),
    record(3, Kind.MEASUREMENT, test="a.py::x", device="s", name="decode", unit="tok/s", better="higher",
           values=[1.0, 2.0], marks=[None, "throttled"], labels={"model": "tiny"}),
    record(4, Kind.STAGE, test="a.py::x", device="s", name="prefill", began=101.0, dur_s=0.5, counters={"tokens": 8}),
    record(5, Kind.SERIES, device="s", name="temperature", unit="°C", t=[100.0, 101.0], values=[30.0, 31.5]),
    record(6, Kind.INCIDENT, device="s", **{"class": "crash"}, summary="SIGSEGV", evidence="*** ***"),
    record(7, Kind.FINGERPRINT, device="s", facts={"cpu": "x", "nan": float("nan")}),
    record(8, Kind.TEST_END, test="a.py::x", outcome="failed", duration_s=1.5, message="boom", cause="crashed"),
    record(9, "from-the-future", anything=1),
    record(10, Kind.NOTE, level="warning", text="pressure"),
)  # fmt: skip


def test_a_journal_becomes_rows(db: Database, attempt: int) -> None:
    assert ship(db, *JOURNAL) == len(JOURNAL)
    with db.read() as session:
        x, y = session.scalars(select(tables.Test).order_by(tables.Test.ordinal))
        assert (x.test_id, x.outcome, x.cause, x.duration_s) == ("a.py::x", "failed", "crashed", 1.5)
        assert (y.test_id, y.outcome, y.ordinal) == ("a.py::y", None, 1)
        [measurement] = session.scalars(select(tables.Measurement))
        assert measurement.values == [1.0, 2.0]
        assert measurement.marks == [None, "throttled"]
        assert measurement.temperature_band == "30-35 °C"
        [stage] = session.scalars(select(tables.Stage))
        assert stage.began_at == datetime.fromtimestamp(NOW.timestamp() + 1, UTC)
        [chunk] = session.scalars(select(tables.SeriesChunk))
        times, values = series.unpack(chunk.data)
        assert list(times) == [NOW.timestamp(), NOW.timestamp() + 1]
        assert list(values) == [30.0, 31.5]
        assert [i.klass for i in session.scalars(select(tables.Incident).order_by(tables.Incident.id))] == [
            "crash", "warning",
        ]  # fmt: skip
        fingerprint = session.get_one(tables.Fingerprint, session.get_one(tables.Device, 1).fingerprint_id)
        assert fingerprint.facts == {"cpu": "x", "nan": None}


def test_shipping_twice_changes_nothing(db: Database, attempt: int) -> None:
    ship(db, *JOURNAL[:6])
    assert ship(db, *JOURNAL) == len(JOURNAL) - 6
    assert ship(db, *JOURNAL) == 0
    with db.read() as session:
        for table, count in ((tables.Measurement, 1), (tables.Incident, 2), (tables.Test, 2), (tables.Fingerprint, 1)):
            assert session.scalar(select(func.count()).select_from(table)) == count


def test_text_that_no_database_holds_is_made_harmless(db: Database, attempt: int) -> None:
    ship(db, record(0, Kind.TEST_END, test="a\ud800::b", outcome="passed", message="zero\0byte"))
    with db.read() as session:
        [row] = session.scalars(select(tables.Test))
    assert (row.test_id, row.message) == ("a?::b", "zero\ufffdbyte")


def test_what_comes_late_is_kept_as_late_and_not_applied(db: Database, attempt: int) -> None:
    ship(db, *JOURNAL, late=True)
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Test)) == 0
        assert all(session.scalars(select(tables.JournalMark.late)))


@pytest.mark.parametrize(
    "fields",
    [
        {"values": [0.0]},
        {"values": [float("inf")]},
        {"values": []},
        {"values": "many"},
        {"values": [1.0], "better": "sideways"},
        {"values": [1.0], "name": "x" * 300},
        {"values": [1.0], "marks": ["odd"]},
        {"values": [1.0], "labels": [1]},
        {"values": [1.0] * 20000},
    ],
)
def test_a_measurement_that_means_nothing_becomes_an_incident(
    db: Database, attempt: int, fields: dict[str, Any]
) -> None:
    base = {"test": "a.py::x", "device": "s", "name": "decode", "unit": "tok/s", "better": "higher"}
    ship(db, record(0, Kind.MEASUREMENT, **{**base, **fields}))
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Measurement)) == 0
        assert [i.klass for i in session.scalars(select(tables.Incident))] == ["bad-record"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    kind=st.sampled_from([k.value for k in Kind]),
    fields=st.dictionaries(
        st.sampled_from(
            ["test", "tests", "outcome", "name", "unit", "values", "t", "v", "facts", "class", "summary", "dur_s",
             "began", "better", "marks", "labels", "counters", "cause", "duration_s", "level", "text", "evidence"]
        ),
        json_values,
        max_size=8,
    ),
)  # fmt: skip
def test_no_record_of_a_stranger_breaks_the_shipping(
    db: Database, attempt: int, kind: str, fields: dict[str, Any]
) -> None:
    with db.read() as session:
        seq = (session.scalar(select(func.max(tables.JournalMark.seq))) or 0) + 1
    assert ship(db, record(seq, kind, **fields)) == 1
