"""One serial number on two hosts: neither device is used while both are there, both are named, and one is enough."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.devices import availability
from farm.store import alerts, devices, hosts, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.inventory import InventoryKeeper
from farm.work.settings import WorkSettings
from farm.work.sightings import Sightings
from tests.work.test_sightings import SERIAL, Host, Phone


class Lab:
    """Two hosts on one database, each with phones of its own."""

    def __init__(self, db: Database, store: ArtifactStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.db = db
        self.hosts: dict[str, Host] = {}
        for name in ("lab-1", "lab-2"):
            state = folder / name
            state.mkdir()
            host = Host(Work(db, state, store, WorkSettings(host=name)), monkeypatch)
            keeper = InventoryKeeper(db, state / "devices.yaml", name)
            keeper.poll()
            host.sightings = Sightings(host.work, keeper)
            self.hosts[name] = host
        monkeypatch.setattr(Work, "device", lambda work, at: self.hosts[work.settings.host].phones[at])

    def look(self, name: str, *addresses: str) -> None:
        with self.db.session() as session:
            hosts.beat(session, name, self.db.now(session))
        self.hosts[name].look(*addresses)

    def plug(self, name: str, boot: str) -> None:
        self.hosts[name].phones["usb:1-1"] = Phone(SERIAL, boot)

    def row(self) -> tuple[str, str]:
        with self.db.read() as session:
            row = session.scalars(select(tables.Device)).one()
            return row.host, row.connection

    def alerts(self) -> list[str]:
        with self.db.session() as session:
            now = self.db.now(session)
            alerts.reconcile(session, alerts.due(session, now), now)
            return [alert.message for alert in alerts.open_alerts(session) if alert.kind == "duplicate-serial"]


@pytest.fixture
def lab(db: Database, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(db, store, tmp_path, monkeypatch)


def both(lab: Lab) -> None:
    lab.plug("lab-1", "boot-a")
    lab.look("lab-1", "usb:1-1")
    lab.plug("lab-2", "boot-b")
    lab.look("lab-2", "usb:1-1")
    lab.look("lab-1", "usb:1-1")


def test_two_devices_of_one_serial_number_on_two_hosts_are_not_used_and_both_are_named(lab: Lab) -> None:
    both(lab)
    assert lab.row() == ("lab-1", "duplicate")
    with lab.db.read() as session:
        [fact] = devices.facts(session)
        word, why = availability(replace(fact, seen_at=lab.db.now(session)), lab.db.now(session))
        shown = session.get_one(tables.Host, "lab-2").info["unidentified"]
    assert (word.value, why) == ("not-ready", "two devices answer with its serial number: neither is used")
    assert shown == [{"address": "usb:1-1", "state": "duplicate"}]
    [told] = lab.alerts()
    assert f"lab-1/{SERIAL} and lab-2/{SERIAL}; neither is used" in told
    lab.look("lab-2", "usb:1-1")  # neither host takes it from the other
    lab.look("lab-1", "usb:1-1")
    assert lab.row() == ("lab-1", "duplicate")


def test_when_one_of_the_two_is_unplugged_the_other_is_used(lab: Lab) -> None:
    both(lab)
    lab.look("lab-2")
    lab.look("lab-1", "usb:1-1")
    assert lab.row() == ("lab-1", "device")
    assert lab.alerts() == []


def test_when_the_first_is_unplugged_its_row_goes_to_the_other_host(lab: Lab) -> None:
    both(lab)
    lab.look("lab-1")
    lab.look("lab-2", "usb:1-1")
    assert lab.row() == ("lab-2", "device")
    lab.look("lab-1")
    assert lab.row() == ("lab-2", "device")
    assert lab.alerts() == []


def test_a_host_that_is_silent_holds_no_device_back(lab: Lab) -> None:
    both(lab)
    with lab.db.session() as session:
        host = session.get_one(tables.Host, "lab-1")
        host.seen_at = lab.db.now(session) - timedelta(minutes=1)
    lab.look("lab-2", "usb:1-1")
    assert lab.row() == ("lab-2", "device")


def test_one_device_that_two_hosts_reach_stays_with_the_first(lab: Lab) -> None:
    lab.plug("lab-1", "boot-a")
    lab.look("lab-1", "usb:1-1")
    lab.plug("lab-2", "boot-a")
    lab.look("lab-2", "usb:1-1")
    lab.look("lab-1", "usb:1-1")
    assert lab.row() == ("lab-1", "device")
    assert lab.alerts() == []


def test_a_device_that_restarted_and_is_reached_by_two_hosts_is_known_again_as_one(lab: Lab) -> None:
    both(lab)  # lab-1 has not noticed the restart yet: it looks like two devices
    assert len(lab.alerts()) == 1
    lab.hosts["lab-1"].phones["usb:1-2"] = Phone(SERIAL, "boot-b")
    lab.look("lab-1", "usb:1-2")
    lab.look("lab-2", "usb:1-1")
    lab.look("lab-1", "usb:1-2")
    assert lab.row() == ("lab-1", "device")
    assert lab.alerts() == []


def test_a_device_that_moved_to_another_host_is_that_hosts(lab: Lab) -> None:
    lab.plug("lab-1", "boot-a")
    lab.look("lab-1", "usb:1-1")
    lab.look("lab-1")
    lab.plug("lab-2", "boot-b")
    lab.look("lab-2", "usb:1-1")
    assert lab.row() == ("lab-2", "device")
