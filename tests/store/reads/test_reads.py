"""What pages and API read: right, in a constant number of queries, never by scanning a table that grows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from farm.domain.devices import Availability
from farm.store import tables as t
from farm.store.db import Database, sqlite_url
from farm.store.reads import attempts, bundles, devices, fleet, runs
from farm.store.reads.progress import Progress
from farm.store.reads.results import MeasurementRow
from farm.store.reads.shared import MAX_POINTS, Point, thin
from tests.dashboard.seed import seed, seeded

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
#: The seeded run in which a device was lost and the job tried again.
RETRIED = 7
READS: dict[str, Callable[[Session, datetime], object]] = {
    "fleet": fleet.fleet,
    "runs": lambda s, now: runs.runs(s),
    "runs of one state": lambda s, now: runs.runs(s, state="ended"),
    "runs by text": lambda s, now: runs.runs(s, text="nightly"),
    "run": lambda s, now: runs.run(s, RETRIED, now),
    "attempt": lambda s, now: attempts.attempt(s, 1, now),
    "device": lambda s, now: devices.device(s, "husky-v1", now),
    "device states": devices.states,
    "bundles": lambda s, now: bundles.bundles(s),
    "packs": lambda s, now: bundles.packs(s),
}
#: What grows with use; a page may not read all of it.
GROWING = "runs|jobs|attempts|attempt_phases|tests|measurements|series_chunks|stages|incidents|artifacts|device_events"


def _run(session: Session, title: str) -> int:
    return session.scalars(select(t.Run.id).where(t.Run.title == title)).one()


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = seeded(tmp_path_factory.mktemp("reads") / "farm.sqlite", NOW)
    yield database
    database.close()


@pytest.fixture
def session(db: Database) -> Iterator[Session]:
    with db.read() as session:
        yield session


@contextmanager
def statements(db: Database) -> Iterator[list[tuple[str, object]]]:
    seen: list[tuple[str, object]] = []

    def note(_c: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            seen.append((statement, parameters))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def _grow(db: Database) -> None:
    """More of everything that a run, a device and the fleet consist of."""
    with db.session() as session:
        run_id = RETRIED
        assert _run(session, "reference engine 0.1.0") == run_id
        device = session.scalars(select(t.Device).where(t.Device.name == "husky-v1")).one()
        for ordinal in range(10, 16):
            job = t.Job(
                run_id=run_id,
                ordinal=ordinal,
                selector="*",
                device_id=device.id,
                suites=[],
                tests=None,
                klass="manual",
                queued_at=NOW,
                not_before=None,
                state="ended",
                outcome="passed",
            )
            session.add(job)
            session.flush()
            for number in (1, 2, 3):
                attempt = t.Attempt(
                    job_id=job.id,
                    number=number,
                    device_id=device.id,
                    host="local",
                    token=1000 + ordinal * 10 + number,
                    created_at=NOW,
                    workflow_id=f"more-{ordinal}-{number}",
                    phase="done",
                    outcome="passed",
                )
                session.add(attempt)
                session.flush()
                session.add(t.Test(attempt_id=attempt.id, test_id="smoke/test_smoke.py::test_more", outcome="passed"))
                session.add(t.AttemptPhase(attempt_id=attempt.id, phase="execute", began_at=NOW))
        for number in range(30):
            session.add(t.Device(serial=f"more-{number}", name=f"more-{number}", host="local", labels={}))


@pytest.mark.parametrize("name", READS)
def test_a_read_takes_as_many_queries_for_much_as_for_little(name: str, tmp_path: Path) -> None:
    db = seeded(tmp_path / "farm.sqlite", NOW)
    counts = []
    for more in (False, True):
        if more:
            _grow(db)
        with statements(db) as seen, db.read() as session:
            READS[name](session, NOW)
        counts.append(len(seen))
    db.close()
    assert counts[0] == counts[1]
    assert 0 < counts[0] <= 20


@pytest.mark.parametrize("name", READS)
def test_a_read_scans_no_table_that_grows(name: str, db: Database) -> None:
    with statements(db) as seen, db.read() as session:
        READS[name](session, NOW)
        asked = list(seen)
        plans = [
            (row[3], statement)
            for statement, parameters in asked
            for row in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
        ]
    assert asked
    for plan, statement in plans:
        # The list of runs walks them newest first and stops at its limit: the one scan that is meant.
        if re.fullmatch(r"SCAN runs", plan) and "ORDER BY runs.id DESC" in statement and "LIMIT" in statement:
            continue
        assert not re.match(rf"SCAN ({GROWING})\b", plan), f"{plan}: {statement}"


def test_the_fleet_counts_its_devices_and_says_who_needs_a_hand(session: Session) -> None:
    found = fleet.fleet(session, NOW)
    assert found.counts == {"running": 3, "ready": 2, "quarantined": 1, "gone": 1, "not-ready": 1}
    assert set(found.needs_hand) == {"mt-9300-04", "rk-evb-08", "R5CT20ZZZZ"}
    assert found.queue.length == 1
    assert found.queue.oldest_why
    assert "rk-evb-v1" in found.queue.oldest_why


def test_a_tile_knows_its_work_its_heat_and_what_is_not_measured(session: Session) -> None:
    tiles = {tile.facts.name: tile for tile in fleet.fleet(session, NOW).tiles}
    busy = tiles["husky-v1"]
    assert busy.availability is Availability.RUNNING
    assert busy.work is not None
    assert (busy.work.tests_done, busy.work.tests_total, busy.work.phase) == (7, 12, "execute")
    assert all(NOW - point.at <= fleet.SPARK_WINDOW for point in busy.temperatures)
    assert len(busy.temperatures) > 10
    settling = tiles["rk-evb-v1"]
    assert settling.work is not None
    assert settling.work.tests_total is None, "nothing collected is unknown, not zero"
    assert (settling.kind, settling.facts.readiness.has_battery) == ("board", False)
    assert tiles["rk-evb-08"].temperatures == ()
    assert tiles["rk-evb-08"].facts.readiness.temperature_c is None


def test_a_host_that_is_silent_makes_its_devices_stale(session: Session) -> None:
    later = fleet.fleet(session, NOW + timedelta(minutes=5))
    assert all(host.silent for host in later.hosts)
    assert {tile.availability for tile in later.tiles} == {Availability.STALE, Availability.GONE}


def test_runs_come_newest_first_a_page_at_a_time(session: Session) -> None:
    first = runs.runs(session, limit=4)
    second = runs.runs(session, limit=4, before=first.before)
    ids = [row.id for row in (*first.rows, *second.rows)]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 8
    last = runs.runs(session, limit=200)
    assert last.before is None
    assert [row.id for row in last.rows][:8] == ids


def test_a_search_takes_wildcards_as_plain_characters(session: Session) -> None:
    assert runs.runs(session, text="%").rows == ()
    assert runs.runs(session, text="1_0").rows == (), "it would match 0.1.0"
    assert {row.title for row in runs.runs(session, text="NIGHTLY").rows} == {"reference engine nightly"}


def test_a_retried_test_shows_the_attempt_in_which_it_ended(session: Session) -> None:
    found = runs.run(session, _run(session, "reference engine 0.1.0"), NOW)
    assert found is not None
    job = next(job for job in found.jobs if len(job.attempts) == 2)
    lost, again = job.attempts
    assert (lost.outcome, lost.retried, again.outcome, again.retried) == ("device-lost", True, "passed", False)
    column = next(i for i, c in enumerate(found.matrix.columns) if c.job_id == job.id)
    cells = [row.cells[column] for row in found.matrix.rows]
    assert {cell.outcome for cell in cells if cell} <= {"passed", "skipped"}
    assert not {"unfinished", "not-run", "waiting"} & found.matrix.counts.keys()
    assert lost.retry_reason
    assert lost.retry_reason.startswith("the device went away (")
    assert again.retry_reason is None
    assert job.progress == Progress(len(cells), len(cells))
    assert [incident.klass for incident in found.incidents] == ["device-lost"]


def test_a_test_that_ended_before_the_device_was_lost_keeps_its_result(tmp_path: Path) -> None:
    db = seeded(tmp_path / "farm.sqlite", NOW)
    with db.session() as session:
        run_id = _run(session, "reference engine 0.1.0")
        detail = runs.run(session, run_id, NOW)
        assert detail is not None
        lost, again = next(job for job in detail.jobs if len(job.attempts) == 2).attempts
        first = "smoke/test_smoke.py::test_starts"
        waiting = session.get(t.Test, (again.id, first))
        assert waiting is not None
        waiting.outcome = waiting.began_at = None  # the second try knows it, but had not to run it
    with db.read() as session:
        detail = runs.run(session, run_id, NOW)
    assert detail is not None
    row = next(row for row in detail.matrix.rows if row.test_id == first)
    assert lost.id in {cell.attempt_id for cell in row.cells if cell}
    assert {cell.outcome for cell in row.cells if cell} == {"passed"}
    db.close()


def test_figures_are_of_the_unmarked_values_and_every_raw_value_is_kept(session: Session) -> None:
    found = runs.run(session, _run(session, "reference engine 0.1.0"), NOW)
    assert found is not None
    decode = [row for row in found.measurements if row.name == "decode_rate"]
    assert len(decode) == 3
    for row in decode:
        clean = sorted(v for v, mark in zip(row.values, row.marks, strict=True) if mark is None)
        assert row.n == len(clean) < len(row.values)
        assert row.median is not None
        assert clean[0] <= row.median <= clean[-1]
        assert row.spread is not None


def test_a_measurement_whose_every_value_is_marked_has_no_median(tmp_path: Path) -> None:
    db = seeded(tmp_path / "farm.sqlite", NOW)
    with db.session() as session:
        row = session.scalars(select(t.Measurement)).first()
        assert row is not None
        row.marks = ["throttled"] * len(row.values)
        wanted = row.id
    with db.read() as session:
        attempt_id = session.scalars(select(t.Measurement.attempt_id).where(t.Measurement.id == wanted)).one()
        found = next(m for m in attempts_measurements(session, attempt_id) if m.id == wanted)
    assert (found.median, found.n, found.spread) == (None, 0, None)
    db.close()


def attempts_measurements(session: Session, attempt_id: int) -> tuple[MeasurementRow, ...]:
    detail = attempts.attempt(session, attempt_id, NOW)
    assert detail is not None
    return detail.measurements


def test_the_tests_after_a_crash_were_not_run(session: Session) -> None:
    run = runs.run(session, _run(session, "decode slower on purpose"), NOW)
    assert run is not None
    crashed = next(a for job in run.jobs for a in job.attempts if a.outcome == "crashed")
    detail = attempts.attempt(session, crashed.id, NOW)
    assert detail is not None
    states = [(test.state, test.cause) for test in detail.tests]
    assert ("ended", "crashed") in states
    assert states[-1] == ("not-run", None)
    assert crashed.tests["crashed"] == 1
    assert crashed.tests["not-run"] >= 1
    assert run.matrix.counts["not-run"] == crashed.tests["not-run"]
    assert [series.name for series in detail.series][-1] == "clock.big"
    assert {artifact.name for artifact in detail.artifacts} == {"journal.jsonl", "logcat.zst", "runner.log"}


def test_a_device_is_found_by_name_serial_number_or_id(session: Session) -> None:
    by_name = devices.device(session, "husky-v1", NOW)
    assert by_name is not None
    for ref in (by_name.tile.facts.serial, str(by_name.tile.facts.id)):
        found = devices.device(session, ref, NOW)
        assert found is not None
        assert found.tile.facts == by_name.tile.facts
    for nobody in ("nobody", "", "999999", "9" * 40, "'; DROP TABLE devices"):
        assert devices.device(session, nobody, NOW) is None


def test_fingerprints_come_newest_first_with_what_changed(session: Session) -> None:
    found = devices.device(session, "husky-v1", NOW)
    assert found is not None
    newest, oldest = found.fingerprints
    assert newest.current
    assert oldest.differences == ()
    assert ("android.sdk", "35", "36") in newest.differences
    assert not any(event.kind == "temperature" for event in found.events)


def test_differences_name_facts_that_came_and_went() -> None:
    before = {"gpu": "Mali", "cpu": {"cores": 8}}
    after = {"cpu": {"cores": 8, "big": 2}, "sdk": None}
    assert devices.differences(before, after) == (
        ("cpu.big", None, "2"),
        ("gpu", "Mali", None),
        ("sdk", None, "not measured"),
    )


def test_a_bundle_is_found_by_name_hash_or_its_beginning(session: Session) -> None:
    row = bundles.bundles(session)[0]
    for ref in (row.name, row.hash, row.hash[:8]):
        found = bundles.bundle(session, ref)
        assert found is not None
        assert found.row == row
    assert bundles.bundle(session, row.hash[:7]) is None
    assert bundles.bundle(session, "%") is None
    pack = bundles.pack(session, "builtin")
    assert pack is not None
    assert [suite.name for suite in pack.suites] == ["smoke", "fingerprint", "latency"]


def test_nothing_is_there_in_an_empty_farm(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    with db.read() as session:
        empty = fleet.fleet(session, NOW)
        assert (empty.tiles, empty.counts, empty.queue.length) == ((), {}, 0)
        assert runs.runs(session) == runs.RunPage((), None)
        assert runs.run(session, 1, NOW) is None
        assert attempts.attempt(session, 1, NOW) is None
        assert bundles.bundles(session) == []
    db.close()


def test_a_thinned_series_keeps_its_extremes_and_its_order() -> None:
    points = [Point(NOW + timedelta(seconds=i), float(i % 97)) for i in range(5000)]
    points[1234] = dataclasses.replace(points[1234], value=500.0)
    kept = thin(points)
    assert len(kept) <= MAX_POINTS + 2
    assert max(p.value for p in kept) == 500.0
    assert min(p.value for p in kept) == 0.0
    assert [p.at for p in kept] == sorted(p.at for p in kept)


def test_the_seed_itself_is_whole(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    with db.session() as session:
        seed(session, NOW)
    with db.read() as session:
        for (attempt_id,) in session.execute(select(t.Attempt.id)):
            assert attempts.attempt(session, attempt_id, NOW) is not None
    db.close()
