"""Series: nothing is lost on the way to bytes and back, few rows, a page's worth of them, and none for ever."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from farm.domain.journal import Kind
from farm.domain.retention import ALL_FOR, GATES_FOR
from farm.store import series, tables
from farm.store.db import Database
from farm.store.reads import attempts as reads
from tests.store.test_results import NOW, attempt, record, ship

__all__ = ["attempt"]

START = 1_900_000_000.0
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-10_000, 10_000, places=3).map(float),
    st.integers(-(2**60), 2**60).map(float),
)


@given(st.lists(st.tuples(st.integers(0, 10**12), VALUES), min_size=1, max_size=50))
def test_values_come_back_exactly_and_times_to_the_millisecond(points: list[tuple[int, float]]) -> None:
    times, values = [t / 1000 for t, _ in points], [v for _, v in points]
    found_times, found_values = series.unpack(series.pack(times, values))
    assert list(found_values) == values
    assert all(abs(a - b) < 0.0006 for a, b in zip(found_times, times, strict=True))


def test_a_chunk_of_an_older_attempt_is_read() -> None:
    old = zstandard.compress(struct.pack("<4d", START, 30.0, START + 1, math.pi))
    times, values = series.unpack(old)
    assert (list(times), list(values)) == ([START, START + 1], [30.0, math.pi])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not zstd",
        b"\x28\xb5\x2f\xfd\x00",
        b"\x02",
        b"\x02" + zstandard.compress(b"short"),
        b"\x02" + zstandard.compress(struct.pack("<IIB", 2**31, 1, 1)),
        b"\x02" + zstandard.compress(struct.pack("<IIB", 1, 0, 3) + bytes(16)),
    ],
)
def test_what_cannot_be_read_is_no_points(data: bytes) -> None:
    times, values = series.unpack(data)
    assert len(times) == len(values) == 0


def test_a_sensor_s_chunk_is_a_fraction_of_its_floats() -> None:
    times = [START + i for i in range(600)]
    values = [41.0 + round(3 * math.sin(i / 40), 1) for i in range(600)]
    assert len(series.pack(times, values)) < 600 * 16 / 15


def test_stretches_have_the_extremes_mean_and_number_of_their_points() -> None:
    times = np.array([0.0, 1.0, 2.0, 7.0, 9.99, 10.0, 50.0])
    values = np.array([1.0, 5.0, 3.0, 2.0, 4.0, 6.0, 99.0])
    found = series.downsampled(times, values, 2, 0.0, 10.0)
    assert found == [series.Bucket(0.0, 1.0, 5.0, 3.0, 3), series.Bucket(7.0, 2.0, 6.0, 4.0, 3)]
    assert series.downsampled(times, values, 10, 20.0, 40.0) == []


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(-50, 50)), max_size=80), st.integers(1, 30))
def test_no_point_is_lost_between_stretches(points: list[tuple[int, int]], buckets: int) -> None:
    points.sort()
    times = np.array([float(t) for t, _ in points])
    values = np.array([float(v) for _, v in points])
    found = series.downsampled(times, values, buckets, 0.0, 1000.0)
    assert len(found) <= buckets
    assert sum(one.count for one in found) == len(points)
    assert sum(one.mean * one.count for one in found) == pytest.approx(values.sum())
    assert not points or max(one.high for one in found) == values.max()


def _grown(db: Database, chunks: int, name: str = "temperature", unit: str = "°C", at: datetime = NOW) -> None:
    with db.session() as session:
        first = session.scalar(select(func.coalesce(func.max(tables.SeriesChunk.seq), 0))) or 0
        for n in range(chunks):
            times = [at.timestamp() + 5 * n + i for i in range(5)]
            values = [30.0 + n + i for i in range(5)]
            session.add(tables.SeriesChunk(**series.row(1, first + n + 1, 1, name, unit, times, values)))


def test_small_chunks_are_put_together_and_say_the_same(db: Database, attempt: int) -> None:
    _grown(db, 1000)
    _grown(db, series.JOIN_FROM - 1, "load", "tasks")
    with db.session() as session:
        [before] = series.read(session, [1], name="temperature")
        assert series.crowded(session, [1]) == [(1, "temperature", "°C")]
        assert series.join(session, 1, "temperature", "°C") == 998
    with db.session() as session:
        [after] = series.read(session, [1], name="temperature")
        assert series.crowded(session, [1]) == []
        counts = session.scalars(select(tables.SeriesChunk.count).where(tables.SeriesChunk.name == "temperature"))
        assert sum(counts) == 5000
    assert np.array_equal(before.times, after.times)
    assert np.array_equal(before.values, after.values)


def test_series_go_after_a_month_and_what_gates_read_after_a_year(db: Database, attempt: int) -> None:
    names = ("temperature", "temperature/cpu", "cpu_cap/policy0", "cpu_cap", "load")
    for age in (timedelta(days=1), ALL_FOR + timedelta(days=1), GATES_FOR + timedelta(days=1)):
        for name in names:
            _grown(db, 1, name, "x", NOW - age)
    gone, left = 0, 1
    with db.session() as session:
        while left:
            left = series.forget(session, NOW, batch=2)
            assert left <= 2
            gone += left
    with db.read() as session:
        c = tables.SeriesChunk
        kept = [
            (name, (NOW - at).days) for name, at in session.execute(select(c.name, c.began_at).order_by(c.began_at))
        ]
    assert gone == 15 - len(kept)
    month = ALL_FOR.days + 1
    assert sorted(kept) == sorted([("temperature", month), ("cpu_cap/policy0", month), *((name, 1) for name in names)])


def test_what_a_device_does_not_show_is_kept_with_its_reason_and_the_last_word_counts(
    db: Database, attempt: int
) -> None:
    said = {"device": "s", "via": "tool", "hz": 1.0}
    ship(db, record(1, Kind.SAMPLER, **said, absent={"gpu_busy": "no such file", "load": "denied"}))
    ship(db, record(2, Kind.SAMPLER, **{**said, "via": "shell", "why": "no tool"}, absent={"gpu_busy": "no such file"}))
    ship(db, record(3, Kind.SAMPLER, via=7))
    with db.read() as session:
        assert dict(reads.absences(session, 1)) == {"gpu_busy": "no such file", "sampler": "shell at 1 Hz: no tool"}
        assert session.scalars(select(tables.Incident.klass)).all() == ["bad-record"]


def test_an_attempt_s_series_share_one_span_when_they_are_downsampled(db: Database, attempt: int) -> None:
    _grown(db, 20)
    _grown(db, 2, "load", "tasks")
    with db.read() as session:
        found = reads.series_between(session, 1, None, None, None, 10)
        part = reads.series_between(session, 1, "load", NOW, NOW + timedelta(seconds=4), 4)
    assert [(one.name, len(one.buckets), sum(b.count for b in one.buckets)) for one in found] == [
        ("load", 1, 10),
        ("temperature", 10, 100),
    ]
    assert [b.mean for b in part[0].buckets] == [30.0, 31.0, 32.0, 33.5]
    assert datetime.fromtimestamp(part[0].buckets[0].at, UTC) == NOW
