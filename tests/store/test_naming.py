"""Which device a person means, and whose inventory file is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farm.store import holds, inventories, tables
from farm.store.db import Database
from farm.store.naming import AmbiguousName, device_id

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def farm(db: Database) -> Database:
    """Two hosts; `husky` is a device of each, and the name of a third is the serial number of a fourth."""
    with db.session() as session:
        session.add_all([tables.Host(name="lab-1", info={}), tables.Host(name="lab-2", info={})])
        session.flush()
        for ident, (serial, name, host) in enumerate(
            [("s1", "husky", "lab-1"), ("s2", "husky", "lab-2"), ("s3", "s4", "lab-1"), ("s4", "board", "lab-2")], 1
        ):
            session.add(tables.Device(id=ident, serial=serial, name=name, host=host, labels={}))
    return db


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("s1", 1), ("lab-2/husky", 2), ("lab-2/s2", 2), ("s4", 3), ("board", 4), ("lab-2/s4", 4), ("2", 2),
        ("lab-1/board", None), ("lab-3/s1", None), ("nobody", None), ("/", None), ("9" * 40, None),
    ],
)  # fmt: skip
def test_a_device_is_named_by_name_serial_host_or_id(farm: Database, ref: str, expected: int | None) -> None:
    with farm.read() as session:
        assert device_id(session, ref) == expected


def test_a_name_of_two_devices_picks_neither_and_lists_both(farm: Database) -> None:
    words = "several devices are called 'husky': lab-1/s1, lab-2/s2; name one by its serial number"
    with farm.session() as session:
        with pytest.raises(AmbiguousName) as refused:
            device_id(session, "husky")
        assert str(refused.value) == words
        assert refused.value.candidates == ["lab-1/s1", "lab-2/s2"]
        with pytest.raises(AmbiguousName):
            holds.target(session, "device", "husky")
        assert holds.target(session, "device", "lab-2/husky") == "s2"


def test_each_hosts_inventory_has_mistakes_of_its_own(farm: Database) -> None:
    with farm.session() as session:
        inventories.note(session, "lab-1", "devices.yaml", ["devices.yaml:4: unknown key 'serail'"], NOW)
        inventories.note(session, "lab-2", "devices.yaml", [], NOW)
        assert inventories.errors(session) == ("host lab-1: devices.yaml:4: unknown key 'serail'",)
        inventories.note(session, "lab-2", "devices.yaml", ["cannot be read"], NOW)
        assert len(inventories.errors(session)) == 2
        inventories.note(session, "lab-1", "devices.yaml", [], NOW)
        assert inventories.errors(session) == ("host lab-2: cannot be read",)
