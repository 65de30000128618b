"""Afterwards the farm says what happened: from the device's log, its boots, and the engine's memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from benchmarks.incidents.anr_traces import variants
from farm.adb.log_file import LogFile
from farm.domain.outcomes import Phase
from farm.evidence.collect.log_marks import clock_words
from farm.store import series, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.collect import collect
from farm.work.context import Work
from farm.work.files import LOGCAT
from farm.work.settings import WorkSettings
from farm.work.step import run_step
from tests.work.factories import start_attempt

NOW = datetime.now(UTC).replace(microsecond=0)
JAVA = [
    "E AndroidRuntime: FATAL EXCEPTION: main",
    "E AndroidRuntime: Process: com.example.app, PID: 4242",
    "E AndroidRuntime: java.lang.IllegalStateException: no model",
    "E AndroidRuntime: \tat com.example.app.Main.onCreate(Main.java:10)",
]
KILL = (
    "I lowmemorykiller: Kill 'com.other.maps' ({}), uid 10137, oom_score_adj 900 to free 92212kB rss, 0kB swap; "
    "reason: low"
)


@pytest.fixture
def work(database_url: str, store: ArtifactStore, tmp_path: Path) -> Iterator[Work]:
    db = Database(database_url)
    db.migrate()
    start_attempt(db, store, tmp_path / "src")
    with db.session() as session:
        session.get_one(tables.Attempt, 1).started_at = NOW
    made = Work(db, tmp_path, store, WorkSettings())
    (made.attempt_dir(1) / "work" / "artifacts").mkdir(parents=True)
    yield made
    db.close()


def stamp(seconds: float) -> str:
    return f"{NOW + timedelta(seconds=seconds):%m-%d %H:%M:%S}.000"


def write_log(work: Work, *lines: str) -> None:
    """Lines behind the marks that the collector writes; the device's clock is the host's, UTC."""
    file = LogFile(work.attempt_dir(1) / LOGCAT, 1 << 20)
    file.open()
    file.note("log of 127.0.0.1:1")
    file.note("boot 11111111-2222")
    file.note(clock_words(0.0, 0.02, "+0000"))
    for line in lines:
        file.write(line) if not line.startswith("boot ") else file.note(line)
    file.close()


def incidents(work: Work) -> list[tables.Incident]:
    run_step(work, 1, Phase.COLLECT, collect)
    with work.db.read() as session:
        return list(session.scalars(select(tables.Incident).order_by(tables.Incident.id)))


def test_a_java_crash_and_the_bystanders_of_a_kill_are_told(work: Work) -> None:
    noise = [f"{stamp(n / 10)}  900  950 D Foo: line {n}" for n in range(500)]
    crash = [f"{stamp(60)}  4242  4242 {line}" for line in JAVA]
    kills = [f"{stamp(61 + n)}   495   495 {KILL.format(7000 + n)}" for n in range(3)]
    write_log(work, *noise, *crash, *kills)
    java, kill = incidents(work)
    assert (java.klass, kill.klass) == ("java-crash", "low-memory-kill")
    assert "com.example.app" in java.summary
    assert "Main.onCreate" in (java.evidence or "")
    assert (kill.count, "com.other.maps" in kill.summary) == (3, True)
    assert java.signature
    assert len(incidents(work)) == 2  # entered again: nothing twice


def test_what_the_ring_held_from_before_is_not_the_attempts(work: Work) -> None:
    write_log(work, *(f"{stamp(-600)}  4242  4242 {line}" for line in JAVA))
    assert incidents(work) == []


def test_an_anr_comes_with_its_wait_chain(work: Work) -> None:
    one = next(v for v in variants(1) if v.name.startswith("lock held by disk_io"))
    (found,) = _anr(work, one.text)
    assert found.klass == "anr"
    assert "did not respond: lock" in found.summary
    assert "disk_io" in found.summary
    assert "waiting to lock" in (found.evidence or "")


def test_what_the_runner_told_of_its_own_engine_is_not_told_again(work: Work) -> None:
    with work.db.session() as session:
        evidence = "pid: 4242, tid: 4242, name: main  >>> com.example.app <<<"
        session.add(
            tables.Incident(
                attempt_id=1, seq=3, device_id=1, at=NOW, klass="engine-crashed", summary="x", evidence=evidence
            )
        )
    write_log(work, *(f"{stamp(60)}  4242  4242 {line}" for line in JAVA))
    assert [one.klass for one in incidents(work)] == ["engine-crashed"]


def _anr(work: Work, text: str) -> list[tables.Incident]:
    lines = [line.replace("03-04 10:11:12.345", stamp(30)) for line in text.split("\n")]
    write_log(work, *lines)
    return incidents(work)


def test_another_boot_id_is_a_reboot(work: Work) -> None:
    write_log(work, f"{stamp(5)}  900  950 D Foo: alive", "boot 33333333-4444", f"{stamp(9)}  900  950 D Foo: again")
    (found,) = incidents(work)
    assert (found.klass, found.summary) == ("reboot", "the device restarted")
    assert found.evidence == "boot 11111111-2222\nboot 33333333-4444"


@pytest.mark.parametrize(("top_mb", "wanted"), [(900.0, 1), (120.0, 0)])
def test_memory_that_grows_without_end_is_told_with_the_engines_autopsy(work: Work, top_mb: float, wanted: int) -> None:
    times = [NOW.timestamp() + n for n in range(40)]
    values = [100.0 + (top_mb - 100.0) * n / 39 for n in range(40)]
    with work.db.session() as session:
        session.add(tables.SeriesChunk(**series.row(1, 7, 1, "engine_pss_anon", "MB", times, values)))
        session.add(
            tables.Stage(attempt_id=1, seq=8, test_id="t", device_id=1, name="decode", began_at=NOW, duration_s=39.0)
        )
    (work.attempt_dir(1) / "work/artifacts/memory-autopsy.json").write_text("{}")
    found = incidents(work)
    assert len(found) == wanted
    for one in found:
        assert (one.klass, one.artifact) == ("heap-growth", "memory-autopsy.json")
        assert "MB/s" in one.summary
