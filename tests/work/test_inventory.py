"""The inventory while the farm runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.store import devices, inventories, tables
from farm.store.db import Database
from farm.store.reads import devices as device_reads
from farm.store.reads.fleet import fleet
from farm.work.inventory import InventoryKeeper
from tests.work.factories import add_device

FILE = """
types: {px: {match: {ro.product.device: husky}, labels: {soc: Tensor G3}}}
devices:
  - {serial: d1, name: husky-v1, pool: demo, ring: 1, labels: {owner: demo}}
  - {serial: absent}
"""


def rows(db: Database) -> dict[str, tables.Device]:
    with db.read() as session:
        return {row.serial: row for row in session.scalars(select(tables.Device))}


def errors(db: Database) -> list[str]:
    with db.read() as session:
        return list(inventories.errors(session))


def test_listed_devices_get_their_names_and_labels_and_absent_ones_a_row(db: Database, tmp_path: Path) -> None:
    add_device(db, "d1", android="14")
    add_device(db, "stranger")
    path = tmp_path / "devices.yaml"
    path.write_text(FILE)
    keeper = InventoryKeeper(db, path, "local")
    keeper.learn("d1", {"ro.product.device": "husky"}, {"android": "14", "abi": "x86_64"})
    assert keeper.poll()
    found = rows(db)
    d1 = found["d1"]
    assert (d1.name, d1.pool, d1.ring, d1.listed, d1.type) == ("husky-v1", "demo", 1, True, "px")
    assert d1.labels == {
        "android": "14",
        "abi": "x86_64",
        "soc": "Tensor G3",
        "owner": "demo",
        "type_name": "px",
        "kind": "other",
    }
    assert (found["absent"].connection, found["absent"].listed) == ("gone", True)
    assert not found["stranger"].listed


def test_a_changed_file_is_read_again_and_what_it_no_longer_says_is_gone(db: Database, tmp_path: Path) -> None:
    add_device(db, "d1")
    path = tmp_path / "devices.yaml"
    path.write_text(FILE)
    keeper = InventoryKeeper(db, path, "local")
    keeper.learn("d1", {"ro.product.device": "husky"}, {"abi": "x86_64"})
    keeper.poll()
    assert not keeper.poll()
    path.write_text("devices: []\n")
    assert keeper.poll()
    d1 = rows(db)["d1"]
    assert (d1.listed, d1.name, d1.pool, d1.labels) == (False, "d1", None, {"abi": "x86_64"})


def names_shown(db: Database) -> list[set[str]]:
    with db.read() as session:
        shown = fleet(session, db.now(session)).tiles
        return [
            {device.name for device in devices.facts(session)},
            {device.name for device in device_reads.facts_of(session)},
            {tile.facts.name for tile in shown},
        ]


def test_a_device_that_was_never_seen_leaves_the_fleet_with_its_entry(db: Database, tmp_path: Path) -> None:
    add_device(db, "d1")
    path = tmp_path / "devices.yaml"
    path.write_text(FILE + "  - {serial: worked}\n")
    keeper = InventoryKeeper(db, path, "local")
    keeper.poll()
    assert names_shown(db) == [{"husky-v1", "absent", "worked"}] * 3
    with db.session() as session:
        ident = session.scalars(select(tables.Device.id).where(tables.Device.serial == "worked")).one()
        session.add(tables.DeviceNote(device_id=ident, at=db.now(session), by="ann", text="comes in May"))
    path.write_text("devices: []\n")
    keeper.poll()
    assert set(rows(db)) == {"d1", "worked"}  # what somebody wrote of it is kept
    assert names_shown(db) == [{"d1"}] * 3  # it was seen: it is shown, unlisted
    path.write_text(FILE + "  - {serial: worked}\n")
    keeper.poll()
    assert names_shown(db) == [{"husky-v1", "absent", "worked"}] * 3


def test_a_wrong_file_changes_nothing_and_says_why_until_it_is_right_again(
    db: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "farm.work.inventory")
    add_device(db, "d1")
    path = tmp_path / "devices.yaml"
    path.write_text(FILE)
    keeper = InventoryKeeper(db, path, "local")
    keeper.poll()
    path.write_text(FILE.replace("serial: d1", "serail: d1"))
    assert not keeper.poll()
    assert rows(db)["d1"].name == "husky-v1"
    assert any("devices.yaml:4: unknown key 'serail'" in e and "did you mean serial?" in e for e in errors(db))
    path.write_text(FILE + "\n")
    assert caplog.messages[-1].endswith("stays in force)")
    assert keeper.poll()
    assert caplog.messages[-1] == "devices.yaml is right again, and in force"
    assert errors(db) == []


def test_no_file_is_an_empty_inventory(db: Database, tmp_path: Path) -> None:
    add_device(db, "d1")
    assert InventoryKeeper(db, tmp_path / "none.yaml", "local").poll()
    assert not rows(db)["d1"].listed


def test_a_file_that_is_gone_changes_nothing_and_says_so_until_it_is_back(
    db: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "farm.work.inventory")
    add_device(db, "d1")
    path = tmp_path / "devices.yaml"
    path.write_text("virtual: true\n" + FILE)
    keeper = InventoryKeeper(db, path, "local")
    keeper.poll()
    path.rename(tmp_path / "devices.yaml.bak")
    assert not keeper.poll()
    assert (rows(db)["d1"].name, rows(db)["d1"].listed, keeper.current.virtual) == ("husky-v1", True, True)
    assert [f"devices.yaml: is gone from {tmp_path}: put it back" in line for line in errors(db)] == [True]
    assert caplog.messages[-1].endswith("stays in force)")
    path.write_text(FILE.replace("serial: d1", "serail: d1"))
    assert not keeper.poll()
    assert "unknown key 'serail'" in errors(db)[0]
    assert rows(db)["d1"].name == "husky-v1"
    path.write_text(FILE + "\n")
    assert keeper.poll()
    assert errors(db) == []
    assert caplog.messages[-1] == "devices.yaml is right again, and in force"
    path.unlink()
    path.mkdir()
    assert not keeper.poll()
    assert "cannot be read" in errors(db)[0]
    assert rows(db)["d1"].name == "husky-v1"
