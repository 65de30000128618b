"""Health, heartbeats and what was left undone: doubted, quarantined, looked at again, freed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.adb import health
from farm.adb.health import HealthReport
from farm.adb.tracker import AdbEntry
from farm.domain.devices import Availability, Health, availability
from farm.store import devices, leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.clean import dirty_file
from farm.work.context import Work
from farm.work.heart import Heart
from farm.work.host import AlreadyRunning, HostWork
from farm.work.inventory import InventoryKeeper
from farm.work.looks import Looks
from farm.work.settings import WorkSettings
from farm.work.sightings import Sightings
from farm.work.watch import Watch
from tests.work.factories import add_device

OK = HealthReport(ok=True, boot_id="b", boot_completed=True, temperature_c=31.0, has_battery=False)
ILL = HealthReport(ok=False, problems=["the system server does not answer"], ill=True)


@pytest.fixture
def work(db: Database, store: ArtifactStore, tmp_path: Path) -> Work:
    add_device(db, "d1")
    return Work(db, tmp_path, store, WorkSettings(renew_every_s=0.0))


def look(work: Work, monkeypatch: pytest.MonkeyPatch, report: HealthReport, times: int = 1) -> tables.Device:
    monkeypatch.setattr(health, "check", lambda _device: report)
    looks = Looks(work)
    for _ in range(times):
        looks.look(1)
    with work.db.read() as session:
        return session.get_one(tables.Device, 1)


def test_one_bad_look_is_nothing_and_two_are_doubt_with_advice_and_a_log(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(work, monkeypatch, ILL).health == "good"
    doubted = look(work, monkeypatch, ILL, 2)
    assert (doubted.health, doubted.health_reason) == ("suspect", "the system server does not answer")
    assert "restart the device" in str(doubted.health_action)
    assert str(doubted.health_log).count("does not answer") == 2
    well = look(work, monkeypatch, OK)
    assert (well.health, well.health_action, well.health_log) == ("good", None, None)


def test_a_look_that_the_adb_server_did_not_let_through_says_nothing_of_the_device(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = HealthReport(ok=False, problems=["no adb server at 127.0.0.1:1"], server_gone=True)
    assert look(work, monkeypatch, away, 10).health == "good"


def test_a_doubted_device_rests_before_a_good_look_frees_it(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    with work.db.session() as session:
        now = work.db.now(session)
        devices.set_health(session, 1, Health.SUSPECT, "spoilt", "verdict", now, timedelta(minutes=1))
    assert look(work, monkeypatch, OK).health == "suspect"
    with work.db.session() as session:
        session.get_one(tables.Device, 1).health_until = work.db.now(session) - timedelta(seconds=1)
    assert look(work, monkeypatch, OK).health == "good"


def test_a_quarantine_that_a_person_gave_no_end_is_lifted_by_no_look(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    with work.db.session() as session:
        devices.set_health(session, 1, Health.BAD, "its screen is broken", "ada", work.db.now(session))
    assert look(work, monkeypatch, OK, 3).health == "bad"
    with work.db.read() as session:
        [fact] = devices.facts(session)
    assert availability(fact, datetime.now(UTC)) == (Availability.QUARANTINED, "its screen is broken")


def test_a_device_that_is_full_or_empty_waits_and_is_not_ill(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    full = HealthReport(
        ok=False, boot_id="b", boot_completed=True, has_battery=True, battery_pct=12, free_bytes=1_000_000,
        temperature_c=30.0, problems=["full"],
    )  # fmt: skip
    row = look(work, monkeypatch, full, 8)
    assert (row.health, row.free_bytes) == ("good", 1_000_000)
    assert row.low_since is not None
    with work.db.read() as session:
        [fact] = devices.facts(session)
    state, why = availability(fact, datetime.now(UTC))
    assert (state, "12 %" in why) == (Availability.NOT_READY, True)
    charged = replace(full, battery_pct=79)
    assert look(work, monkeypatch, charged).low_since is not None
    assert look(work, monkeypatch, replace(full, battery_pct=80)).low_since is None
    with work.db.read() as session:
        [fact] = devices.facts(session)
        kinds = [e.kind for e in session.scalars(select(tables.DeviceEvent).order_by(tables.DeviceEvent.id))]
    assert "1.0 MB" in availability(fact, datetime.now(UTC))[1]
    assert [kind for kind in kinds if kind != "temperature"] == ["battery-low", "charged"]


def test_a_quarantine_that_is_over_ends_only_with_a_good_look(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    with work.db.session() as session:
        row = session.get_one(tables.Device, 1)
        row.health, row.health_until = "bad", datetime.now(UTC) - timedelta(seconds=1)
    with work.db.read() as session:
        [fact] = devices.facts(session)
    assert availability(fact, datetime.now(UTC))[0] is Availability.CHECKING
    assert look(work, monkeypatch, ILL).health == "bad"
    assert look(work, monkeypatch, OK).health == "good"


def test_a_low_battery_or_a_boot_is_not_an_illness(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    low = HealthReport(ok=False, boot_id="b", boot_completed=True, battery_pct=12, has_battery=True, problems=["12 %"])
    assert look(work, monkeypatch, low, 7).health == "good"
    booting = HealthReport(ok=False, boot_id="b", boot_completed=False, problems=["booting"])
    assert look(work, monkeypatch, booting, 7).health == "good"


def test_maintenance_is_a_persons_word_and_no_look_changes_it(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    with work.db.session() as session:
        session.get_one(tables.Device, 1).health = "maintenance"
    assert look(work, monkeypatch, OK).health == "maintenance"
    assert look(work, monkeypatch, ILL, 7).health == "maintenance"


def test_a_reboot_is_found_by_the_boot_id_and_a_wrong_clock_is_told_once(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(work, monkeypatch, OK)
    late = HealthReport(ok=True, boot_id="another", boot_completed=True, clock_skew_s=90.0)
    look(work, monkeypatch, late, 3)
    with work.db.read() as session:
        kinds = [e.kind for e in session.scalars(select(tables.DeviceEvent).order_by(tables.DeviceEvent.id))]
    assert [kind for kind in kinds if kind != "temperature"] == ["rebooted", "clock"]


def test_the_heart_renews_what_stands_and_tells_the_runner(work: Work) -> None:
    now = datetime.now(UTC)
    (work.attempt_dir(7)).mkdir(parents=True)
    with work.db.session() as session:
        lease = leases.grant(session, 1, "attempt:7", None, now - timedelta(seconds=20), now + timedelta(hours=1))
    Heart(work).beat()
    first = (work.attempt_dir(7) / "renewed").read_text()
    with work.db.read() as session:
        row = session.get_one(tables.Lease, lease.id)
        assert row.heartbeat_by > now + timedelta(seconds=20)
        host = session.get_one(tables.Host, "local")
        assert host.seen_at is not None
    Heart(work).beat()
    assert (work.attempt_dir(7) / "renewed").read_text() != first
    with work.db.session() as session:
        leases.release(session, lease.id, now, "over")
    last = (work.attempt_dir(7) / "renewed").read_text()
    Heart(work).beat()
    assert (work.attempt_dir(7) / "renewed").read_text() == last


def test_a_lease_that_nobody_cleaned_after_frees_its_device_only_for_cleaning(work: Work) -> None:
    now = datetime.now(UTC)
    work.attempt_dir(0).mkdir(parents=True)
    (work.attempt_dir(0) / "snapshot.json").write_text("{}")
    with work.db.session() as session:
        lease = leases.grant(session, 1, "attempt:0", None, now, now + timedelta(hours=1))
        leases.release(session, lease.id, now, "its host was lost")
    assert Watch(work).end_orphan(lease.id)
    with work.db.read() as session:
        assert leases.open_leases(session) == []
        device = session.get_one(tables.Device, 1)
    assert (device.health, device.health_by) == ("bad", "clean")
    assert dirty_file(work, "d1").exists()
    assert Watch(work).needs_cleaning(device)


def test_a_second_farm_in_the_same_state_folder_is_refused(db: Database, store: ArtifactStore, tmp_path: Path) -> None:
    def host() -> HostWork:
        return HostWork(db, store, tmp_path, WorkSettings(adb_port=1), tmp_path / "devices.yaml")

    first = host()
    first._own(wait_s=0)
    with pytest.raises(AlreadyRunning, match="farm down"):
        host()._own(wait_s=0)
    assert first._lock is not None
    first._lock.close()
    host()._own(wait_s=0)


def test_what_adb_lists_and_cannot_say_who_it_is_is_noted_with_its_host_until_it_can(work: Work) -> None:
    keeper = InventoryKeeper(work.db, work.state / "devices.yaml", "local")
    sightings = Sightings(work, keeper)

    def noted() -> object:
        with work.db.read() as session:
            return session.get_one(tables.Host, "local").info.get("unidentified")

    shy = AdbEntry("3A021FDF6", "unauthorized", "3A021FDF6", transport_id=7)
    known = AdbEntry("127.0.0.1:d1", "offline", "127.0.0.1:d1", transport_id=8)
    assert sightings.update([shy, known]) == []
    assert noted() == [{"address": "3A021FDF6", "state": "unauthorized"}]  # the other has a row, and is a tile
    assert sightings.update([replace(shy, state="device"), known]) == [replace(shy, state="device")]
    assert noted() == []
    with work.db.read() as session:
        changes = session.scalars(select(tables.Change.ref).where(tables.Change.topic == "host")).all()
    assert changes == ["local", "local"]


def test_a_start_believes_no_address_of_the_last_life_but_leaves_held_devices_alone(work: Work) -> None:
    add_device(work.db, "held")
    with work.db.session() as session:
        now = work.db.now(session)
        leases.grant(session, 2, "attempt:1", None, now, now + timedelta(hours=1))
    Sightings(work, InventoryKeeper(work.db, work.state / "devices.yaml", "local")).begin()
    with work.db.read() as session:
        connections = {row.serial: row.connection for row in session.scalars(select(tables.Device))}
    assert connections == {"d1": "gone", "held": "device"}
