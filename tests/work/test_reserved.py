"""A device that a person held: looked at before, as it was afterwards, and free only then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.adb.device import Device
from farm.domain.leases import Lease
from farm.store import leases, reservations, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.reservations import Wish
from farm.work.context import Work
from farm.work.reserved import Reserved
from farm.work.settings import WorkSettings
from tests.waiting import eventually
from tests.work.factories import add_device
from tests.work.real_farm import RealFarm

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def farm() -> Iterator[RealFarm]:
    made = RealFarm(clean_wait_s=3.0)
    try:
        made.start()
        made.add_device(serial="R1")
        eventually(lambda: reserve(made.db)[1] is not None, 120, interval=1.0, what="the device to be free")
        give_back(made.db)
        yield made
    finally:
        made.close()


def reserve(db: Database) -> tuple[int, Lease | None]:
    """Ask, and do not wait."""
    with db.session() as session:
        now = db.now(session)
        ident, lease = reservations.request(session, Wish("*", HOUR, "ann", "red"), now)
        if lease is None:
            reservations.end(session, ident, now, "not to wait")
    return ident, lease


def row_of(db: Database, ident: int) -> tables.Reservation:
    with db.read() as session:
        return session.get_one(tables.Reservation, ident)


def give_back(db: Database) -> None:
    """Release every reservation's lease and wait until the devices are free."""
    with db.session() as session:
        for lease in leases.open_leases(session):
            leases.release(session, lease.id, db.now(session), "done")
    eventually(lambda: open_leases(db) == [], what="leases to end")


def open_leases(db: Database) -> list[Lease]:
    with db.read() as session:
        return leases.open_leases(session)


def phone(farm: RealFarm) -> Device:
    return Device("127.0.0.1", farm.adb_port, str(farm.device().address))


def hold(farm: RealFarm) -> tuple[int, Lease]:
    found: list[tuple[int, Lease]] = []

    def ask() -> bool:
        ident, lease = reserve(farm.db)
        found.extend([(ident, lease)] if lease else [])
        return lease is not None

    eventually(ask, what="a free device")
    ident, lease = found[-1]
    eventually(lambda: row_of(farm.db, ident).ready_at is not None, what="the device to be prepared")
    return ident, lease


def test_what_the_holder_left_is_gone_before_the_next_one_gets_the_device(farm: RealFarm) -> None:
    ident, lease = hold(farm)
    device = phone(farm)
    device.check_shell(
        "echo x > /data/local/tmp/left; settings put global farm_left 1; setprop debug.left 1;"
        " setsid sleep 4821 >/dev/null 2>&1 </dev/null & echo started"
    )
    with farm.db.session() as session:
        assert leases.release(session, lease.id, farm.db.now(session), "done")
    assert row_of(farm.db, ident).state == "ended"
    eventually(lambda: open_leases(farm.db) == [], what="the lease to end")
    with farm.db.read() as session:
        row = session.get_one(tables.Lease, lease.id)
        device_row = session.get_one(tables.Device, lease.device_id)
    assert row.ended_at is not None
    assert row.released_at is not None
    assert row.ended_at > row.released_at
    assert device_row.health == "good"
    assert device.shell("cat /data/local/tmp/left").exit_code != 0
    assert device.check_shell(["settings", "get", "global", "farm_left"]).strip() == "null"
    assert "sleep 4821" not in device.check_shell("ps -A -o ARGS")
    assert not (farm.state / "leases" / str(lease.id)).exists()


def test_a_device_that_cannot_be_cleaned_is_quarantined_and_cleaned_when_it_is_back(farm: RealFarm) -> None:
    _, lease = hold(farm)
    phone(farm).check_shell("echo x > /data/local/tmp/left-behind")
    farm.fault("R1", "unplug")
    with farm.db.session() as session:
        leases.release(session, lease.id, farm.db.now(session), "done")
    eventually(lambda: open_leases(farm.db) == [], what="the lease to end")
    with farm.db.read() as session:
        row = session.get_one(tables.Device, lease.device_id)
    assert row.health == "bad"
    assert "not cleaned after ann" in (row.health_reason or "")
    assert reserve(farm.db)[1] is None
    farm.fault("R1", "replug")
    again, _ = hold(farm)
    assert phone(farm).shell("cat /data/local/tmp/left-behind").exit_code != 0
    assert row_of(farm.db, again).state == "active"
    give_back(farm.db)


def test_a_killed_farm_keeps_the_reservation_and_cleans_after_it(farm: RealFarm) -> None:
    ident, lease = hold(farm)
    phone(farm).check_shell("echo x > /data/local/tmp/from-before")
    farm.kill_process()
    farm.start()
    assert [x.id for x in open_leases(farm.db)] == [lease.id]
    assert row_of(farm.db, ident).state == "active"
    give_back(farm.db)
    eventually(lambda: phone(farm).shell("cat /data/local/tmp/from-before").exit_code != 0)


@pytest.fixture
def work(db: Database, store: ArtifactStore, tmp_path: Path) -> Work:
    add_device(db, "d1")
    return Work(db, tmp_path, store, WorkSettings(clean_wait_s=0.0), adb_port=1)


def test_a_device_that_cannot_be_prepared_is_taken_back_with_the_reason(work: Work) -> None:
    ident, lease = reserve(work.db)
    assert lease is not None
    assert not Reserved(work).prepare(lease)  # there is no adb server at port 1
    row = row_of(work.db, ident)
    assert row.state == "ended"
    assert "could not be prepared" in (row.end_reason or "")
    with work.db.read() as session:
        device = session.scalars(select(tables.Device)).one()
    assert device.health == "suspect"


def test_a_lease_that_was_never_handed_over_needs_no_cleaning(work: Work) -> None:
    _, lease = reserve(work.db)
    assert lease is not None
    Reserved(work).clean(lease)
    assert open_leases(work.db) == []
