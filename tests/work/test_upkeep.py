"""What would grow for ever does not, and nobody waits for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from farm.store import tables, upkeep
from farm.store.artifacts import ArtifactStore
from farm.store.bus import touch
from farm.store.db import Database
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.upkeep import Upkeep
from tests.work.factories import add_device

NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def work(tmp_path: Path, store: ArtifactStore) -> Iterator[Work]:
    db = Database(f"sqlite:///{tmp_path / 'farm.sqlite'}", clock=lambda: NOW)
    db.migrate()
    add_device(db, "d1")
    yield Work(db, tmp_path, store, WorkSettings())
    db.close()


def add_readings(work: Work, times: Sequence[datetime], kind: str = "temperature") -> None:
    rows = [{"device_id": 1, "at": at, "kind": kind, "detail": {"celsius": 31.0}} for at in times]
    with work.db.session() as session:
        session.execute(insert(tables.DeviceEvent), rows)


def readings(work: Work, kind: str = "temperature") -> list[datetime]:
    with work.db.read() as session:
        asked = select(tables.DeviceEvent.at).where(tables.DeviceEvent.kind == kind).order_by(tables.DeviceEvent.at)
        return list(session.scalars(asked))


def test_a_curve_is_whole_for_an_hour_then_one_a_minute_and_after_a_week_gone(work: Work) -> None:
    ages = [timedelta(seconds=15 * n) for n in range(4 * 60 * 3)]  # three hours, four a minute
    week = timedelta(days=7)
    old = [week - timedelta(minutes=1), week - timedelta(minutes=1) + timedelta(seconds=1), week + timedelta(seconds=1)]
    add_readings(work, [NOW - age for age in [*ages, *old]])
    Upkeep(work).once()
    left = readings(work)
    hour = upkeep.minute(NOW - timedelta(hours=1))
    recent = [at for at in left if at >= hour]
    assert len(recent) == sum(NOW - age >= hour for age in ages)
    thin = [at for at in left if at < hour]
    assert set(Counter(upkeep.minute(at) for at in thin).values()) == {1}
    assert len(thin) == 120 + 1  # a reading for each minute of the two hours before, and the one of last week
    assert min(left) >= NOW - week


def test_thinning_again_and_after_a_restart_takes_nothing_more(work: Work) -> None:
    add_readings(work, [NOW - timedelta(hours=2, seconds=7 * n) for n in range(200)])
    first = Upkeep(work)
    first.once()
    left = readings(work)
    first.once()
    Upkeep(work).once()
    assert readings(work) == left


def test_more_than_one_batch_is_done_in_several_transactions_none_of_them_large(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "BATCH", 20)
    add_readings(work, [NOW - timedelta(days=8, seconds=n) for n in range(50)])
    add_readings(work, [NOW - timedelta(hours=3, seconds=n) for n in range(90)])
    before = len(readings(work))
    fewest = before
    while True:
        with work.db.session() as session:
            done = upkeep.forget_temperatures(session, 1, NOW - upkeep.THIN_FOR)
        assert done <= 20
        assert len(readings(work)) == fewest - done
        fewest -= done
        if done < 20:
            break
    assert fewest == 90
    Upkeep(work).once()
    assert len(readings(work)) == len({upkeep.minute(at) for at in readings(work)})


def test_other_history_stays_however_old(work: Work) -> None:
    add_readings(work, [NOW - timedelta(days=400)], kind="rebooted")
    Upkeep(work).once()
    assert len(readings(work, "rebooted")) == 1


def test_a_change_is_kept_for_a_day_and_the_newest_for_ever(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "BATCH", 4)
    with work.db.session() as session:
        for n in range(10):
            touch(session, "run", f"old {n}", at=NOW - timedelta(days=1, seconds=1))
        newest = session.scalar(select(func.max(tables.Change.id)))
    Upkeep(work).once()
    with work.db.session() as session:
        assert list(session.scalars(select(tables.Change.ref))) == ["old 9"]
        touch(session, "run", "new", at=NOW - timedelta(hours=23))
    Upkeep(work).once()
    with work.db.read() as session:
        [left] = session.scalars(select(tables.Change))
    assert left.ref == "new"
    assert left.id > (newest or 0)  # a number is never given twice: a page that saw the old ones hears of this one


def test_a_farm_that_stops_waits_for_no_upkeep(work: Work) -> None:
    add_readings(work, [NOW - timedelta(days=8)])
    work.stopping.set()
    Upkeep(work).once()
    assert len(readings(work)) == 1
