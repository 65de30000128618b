"""Who answers where: one serial number at two addresses, and a host without its adb server."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from farm.adb.errors import DeviceGone
from farm.adb.shell import ShellResult
from farm.adb.tracker import AdbEntry
from farm.domain.devices import availability, remedy
from farm.store import alerts, devices, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.agent import virtual_addresses
from farm.work.alerts import Alerts
from farm.work.context import Work
from farm.work.inventory import InventoryKeeper
from farm.work.settings import WorkSettings
from farm.work.sightings import Sightings

SERIAL = "0123456789ABCDEF"


@dataclass
class Phone:
    """What answers at an address."""

    number: str
    boot: str
    gone: bool = False

    def serial(self) -> str:
        if self.gone:
            raise DeviceGone("x")
        return self.number

    def boot_id(self) -> str:
        return self.boot

    def props(self) -> dict[str, str]:
        return {"ro.product.model": "board"}

    def shell(self, *_args: Any, **_options: Any) -> ShellResult:
        return ShellResult(0, b"MemTotal:        3900000 kB\n", b"", truncated=False)


class Host:
    """A host whose phones are plugged in and out by the test."""

    def __init__(self, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = work
        self.phones: dict[str, Phone] = {}
        monkeypatch.setattr(Work, "device", lambda _work, address: self.phones[address])
        keeper = InventoryKeeper(work.db, work.state / "devices.yaml", "local")
        keeper.poll()
        self.sightings = Sightings(work, keeper)

    def look(self, *addresses: str) -> list[str]:
        """A pass of the agent over these addresses; those that it had to ask."""
        entries = [AdbEntry(a, "device", SERIAL, transport_id=int(a[-1])) for a in addresses]
        strangers = self.sightings.update(entries)
        for entry in strangers:
            self.sightings.identify(entry)
        self.sightings.update(entries)
        return [entry.address for entry in strangers]

    def rows(self) -> list[tuple[str, str | None]]:
        with self.work.db.read() as session:
            return [(d.connection, d.address) for d in session.scalars(select(tables.Device))]

    def info(self) -> dict[str, Any]:
        with self.work.db.read() as session:
            return session.get_one(tables.Host, "local").info


@pytest.fixture
def host(db: Database, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(Work(db, tmp_path, store, WorkSettings()), monkeypatch)


def test_two_devices_with_one_serial_number_are_both_left_alone_and_named(host: Host) -> None:
    host.phones = {"usb:1-1": Phone(SERIAL, "boot-a"), "usb:1-2": Phone(SERIAL, "boot-b")}
    host.look("usb:1-1")
    assert host.rows() == [("device", "usb:1-1")]
    host.look("usb:1-1", "usb:1-2")
    assert [connection for connection, _ in host.rows()] == ["duplicate"]
    assert host.info()["duplicates"] == [{"serial": SERIAL, "addresses": ["usb:1-1", "usb:1-2"]}]
    with host.work.db.session() as session:
        now = session.get_one(tables.Device, 1).connection_at
        session.get_one(tables.Host, "local").seen_at = session.get_one(tables.Device, 1).seen_at = now
        [fact] = devices.facts(session)
    assert now is not None
    assert availability(fact, now) == (
        "not-ready",
        "two devices answer with its serial number: neither is used",
    )
    Alerts(host.work.db).once()
    with host.work.db.read() as session:
        [alert] = [a for a in alerts.open_alerts(session) if a.kind == "duplicate-serial"]
    assert "usb:1-1 and usb:1-2" in alert.message
    assert host.look("usb:1-1", "usb:1-2") == []  # nobody is asked again and again


def test_when_one_of_the_two_is_unplugged_the_other_is_used(host: Host) -> None:
    host.phones = {"usb:1-1": Phone(SERIAL, "boot-a"), "usb:1-2": Phone(SERIAL, "boot-b")}
    host.look("usb:1-1", "usb:1-2")
    assert host.info()["duplicates"]
    assert host.look("usb:1-2") == ["usb:1-2"]
    assert host.rows() == [("device", "usb:1-2")]
    assert host.info()["duplicates"] == []
    assert host.info()["unidentified"] == []


def test_one_device_that_is_reached_in_two_ways_is_used_by_the_first_and_then_by_the_other(host: Host) -> None:
    one = Phone(SERIAL, "boot-a")
    host.phones = {"usb:1-1": one, "10.0.0.7:5": one}
    host.look("usb:1-1")
    host.look("usb:1-1", "10.0.0.7:5")
    assert host.rows() == [("device", "usb:1-1")]
    assert host.info().get("duplicates", []) == []
    assert host.look("usb:1-1", "10.0.0.7:5") == []
    assert host.look("10.0.0.7:5") == ["10.0.0.7:5"]
    assert host.rows() == [("device", "10.0.0.7:5")]


def test_a_device_that_moved_and_restarted_is_no_second_device(host: Host) -> None:
    host.phones = {"usb:1-1": Phone(SERIAL, "boot-a"), "usb:1-2": Phone(SERIAL, "boot-b")}
    host.look("usb:1-1")
    host.phones["usb:1-1"].gone = True  # adb lists it a moment longer
    host.look("usb:1-1", "usb:1-2")
    assert host.info().get("duplicates", []) == []
    assert host.rows() == [("device", "usb:1-2")]


def test_a_device_that_is_listed_and_does_not_answer_is_shown_as_silent_until_it_does(host: Host) -> None:
    phone = host.phones["usb:1-1"] = Phone(SERIAL, "boot-a", gone=True)
    assert host.look("usb:1-1") == ["usb:1-1"]
    assert host.info()["unidentified"] == [{"address": "usb:1-1", "state": "silent"}]
    assert "does not answer" in remedy("silent")
    phone.gone = False
    host.look("usb:1-1")
    assert host.info()["unidentified"] == []
    assert host.rows() == [("device", "usb:1-1")]


def test_only_virtual_devices_that_run_are_connected(tmp_path: Path) -> None:
    line = [sys.executable, "-c", "print(flush=True); input()", str(tmp_path / "here")]
    running = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.readline()  # from here on the kernel tells its arguments
    try:
        for name, pid in (("here", running.pid), ("elsewhere", running.pid), ("dead", 1 << 22)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "device.json").write_text(json.dumps({"pid": pid, "address": name}))
        assert virtual_addresses(tmp_path) == {"here"}
    finally:
        running.communicate(timeout=30)


def test_a_host_says_why_it_has_no_adb_server_until_it_has_one(host: Host) -> None:
    host.sightings.note_adb("somebody else's adb server has port 5038 (pid 7, adb): end it")
    assert "pid 7" in host.info()["adb_trouble"]
    host.sightings.note_adb(None)
    assert host.info()["adb_trouble"] is None
