"""Alert rows: one open row per kind and ref, reworded in place, cleared by itself, opened anew when it comes back."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select

from farm.store import alerts, tables
from farm.store.db import Database
from farm.work.alerts import Alerts
from tests.work.factories import add_device


def lose(db: Database, connection: str, seconds_ago: float = 60) -> None:
    with db.session() as session:
        now = db.now(session)
        for row in session.scalars(select(tables.Device)):
            row.connection, row.connection_at, row.seen_at = connection, now - timedelta(seconds=seconds_ago), now
        for host in session.scalars(select(tables.Host)):
            host.seen_at = now


def opened(db: Database) -> list[tuple[str, str]]:
    Alerts(db).once()
    with db.read() as session:
        return [(a.kind, a.ref) for a in alerts.open_alerts(session)]


def test_an_alert_opens_once_clears_by_itself_and_opens_anew(db: Database) -> None:
    add_device(db, "d1", type_name="RK3568 board")
    lose(db, "device")
    assert opened(db) == []
    lose(db, "gone")
    assert opened(db) == [("last-of-its-kind", "RK3568 board")]
    assert opened(db) == [("last-of-its-kind", "RK3568 board")]
    lose(db, "device")
    assert opened(db) == []
    lose(db, "gone")
    assert opened(db) == [("last-of-its-kind", "RK3568 board")]
    with db.read() as session:
        assert len(alerts.cleared(session)) == 1
        changes = session.scalars(select(tables.Change.ref).where(tables.Change.topic == "alert")).all()
    assert changes == ["last-of-its-kind:RK3568 board"] * 3


def test_an_alert_whose_words_change_keeps_its_row_and_its_time(db: Database) -> None:
    add_device(db, "d1", type_name="board")
    lose(db, "gone")
    opened(db)
    with db.session() as session:
        [before] = alerts.open_alerts(session)
        row = session.get_one(tables.Device, 1)
        row.connection, row.health, row.health_reason = "device", "maintenance", "new battery"
        row.health_at = db.now(session) - timedelta(minutes=2)
    opened(db)
    with db.read() as session:
        [after] = alerts.open_alerts(session)
    assert (after.id, after.at) == (before.id, before.at)
    assert "new battery" in after.message


def test_an_unlisted_device_of_last_week_belongs_to_the_fleet_no_more(db: Database) -> None:
    add_device(db, "d1")
    lose(db, "gone")
    with db.session() as session:
        session.get_one(tables.Device, 1).seen_at = db.now(session) - timedelta(days=7)
    assert opened(db) == []


def test_two_devices_with_one_serial_number_and_a_foreign_adb_server_are_told_by_their_host(db: Database) -> None:
    add_device(db, "d1")
    lose(db, "device")
    with db.session() as session:
        host = session.get_one(tables.Host, "local")
        host.info = {"duplicates": [{"serial": "S", "addresses": ["a", "b"]}], "adb_trouble": "foreign server"}
    assert opened(db) == [("adb-server", "local"), ("duplicate-serial", "local/S")]


def test_devices_that_were_never_seen_raise_no_alert_until_they_are_lost(db: Database) -> None:
    for name in ("d1", "d2", "d3"):
        add_device(db, name, type_name="Pixel 8 Pro")
    lose(db, "gone")
    with db.session() as session:
        for row in session.scalars(select(tables.Device)):
            row.listed, row.seen_at, row.connection_at = True, None, None
        session.get_one(tables.Host, "local").seen_at = None  # nor was its agent ever heard of
    assert opened(db) == []
    lose(db, "gone")  # seen once, and then gone
    assert opened(db) == [("host-trouble", "local"), ("last-of-its-kind", "Pixel 8 Pro")]
