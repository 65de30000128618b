"""A device's history as spans: what held when, and what was there before one looked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from farm.store import tables as t
from farm.store.db import Database
from farm.store.reads.history import MAX_CHANGES, Span, history

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DAY = timedelta(hours=24)


@pytest.fixture
def device(db: Database) -> int:
    with db.session() as session:
        session.add(t.Host(name="local", info={}))
        session.flush()
        row = t.Device(serial="S1", name="one", host="local", virtual=True, connection="device", health="good")
        session.add(row)
        session.flush()
        return row.id


def _event(session: Session, device: int, ago: timedelta, kind: str, **detail: object) -> None:
    session.add(t.DeviceEvent(device_id=device, at=NOW - ago, kind=kind, detail=detail))


def _words(spans: tuple[Span, ...]) -> list[tuple[str, float, float | None]]:
    """(word, began, ended) in minutes before now."""
    return [
        (
            s.word,
            (NOW - s.began_at).total_seconds() / 60,
            (NOW - s.ended_at).total_seconds() / 60 if s.ended_at else None,
        )
        for s in spans
    ]


def test_a_state_that_began_before_the_window_is_there_from_its_beginning(db: Database, device: int) -> None:
    with db.session() as session:
        _event(session, device, timedelta(hours=2), "connection", connection="device")
        _event(session, device, timedelta(minutes=30), "connection", connection="gone")
        _event(session, device, timedelta(minutes=20), "connection", connection="device", address="a:1")
        _event(session, device, timedelta(minutes=10), "connection", connection="device", address="a:2")
    with db.read() as session:
        found = history(session, device, timedelta(hours=1), NOW)
    assert found is not None
    assert found.begin == NOW - timedelta(hours=1)
    assert _words(found.connection) == [("device", 120, 30), ("gone", 30, 20), ("device", 20, None)]


def test_a_young_device_has_no_longer_history_than_its_life(db: Database, device: int) -> None:
    with db.session() as session:
        _event(session, device, timedelta(minutes=3), "connection", connection="device")
        _event(session, device, timedelta(minutes=1), "temperature", celsius=31.5)
    with db.read() as session:
        found = history(session, device, DAY, NOW)
    assert found is not None
    assert found.begin == NOW - timedelta(minutes=3)
    assert [p.value for p in found.temperature.points] == [31.5]


def test_health_is_good_until_somebody_says_otherwise(db: Database, device: int) -> None:
    with db.session() as session:
        _event(session, device, timedelta(minutes=50), "connection", connection="device")
        _event(session, device, timedelta(minutes=10), "health", health="bad", reason="deaf", by="farm")
    with db.read() as session:
        found = history(session, device, DAY, NOW)
    assert found is not None
    assert _words(found.health) == [("good", 50, 10), ("bad", 10, None)]


def test_a_lease_is_held_until_its_release_and_cleaned_until_its_end(db: Database, device: int) -> None:
    def lease(token: int, began: int, released: int | None, ended: int | None) -> t.Lease:
        def at(minutes: int | None) -> datetime | None:
            return None if minutes is None else NOW - timedelta(minutes=minutes)

        return t.Lease(
            device_id=device,
            holder=f"reservation:{token}",
            token=token,
            granted_at=NOW - timedelta(minutes=began),
            heartbeat_by=NOW,
            ends_at=NOW + DAY,
            released_at=at(released),
            ended_at=at(ended),
        )

    with db.session() as session:
        _event(session, device, timedelta(hours=5), "connection", connection="device")
        session.add_all([lease(1, 200, 190, 189), lease(2, 50, 40, 38), lease(3, 5, None, None)])
    with db.read() as session:
        found = history(session, device, timedelta(hours=1), NOW)
    assert found is not None
    assert _words(found.held) == [("held", 50, 40), ("cleaned", 40, 38), ("held", 5, None)]
    assert [span.holder for span in found.held] == ["reservation:2", "reservation:2", "reservation:3"]


def test_a_plug_that_flaps_all_day_shortens_the_history_and_not_the_truth(db: Database, device: int) -> None:
    with db.session() as session:
        for i in range(MAX_CHANGES + 40):
            word = "gone" if i % 2 else "device"
            _event(session, device, timedelta(minutes=1 + i), "connection", connection=word)
    with db.read() as session:
        found = history(session, device, DAY, NOW)
    assert found is not None
    assert found.begin == NOW - timedelta(minutes=MAX_CHANGES)
    assert len(found.connection) == MAX_CHANGES
    assert found.connection[-1].ended_at is None


def test_a_device_that_is_not_there_has_no_history(db: Database) -> None:
    with db.read() as session:
        assert history(session, 4711, DAY, NOW) is None
