"""The agent with real adb and virtual devices: who is there, under which name, and what happened to it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import select

from farm.store import inventories, tables
from tests.waiting import eventually
from tests.work.real_farm import LONG_S, RealFarm
from virtual import fleet


@pytest.fixture(scope="module")
def farm() -> Iterator[RealFarm]:
    made = RealFarm()
    try:
        made.add_device("rk3568", "V1")
        made.start()
        made.ready(1)
        yield made
    finally:
        made.close()
        twins = made.state.with_name(made.state.name + "-twin")
        fleet.stop_all(twins)
        shutil.rmtree(twins, ignore_errors=True)


def device(farm: RealFarm) -> tables.Device:
    with farm.db.read() as session:
        [row] = session.scalars(select(tables.Device))
        return row


def test_a_device_tells_what_it_is(farm: RealFarm) -> None:
    row = device(farm)
    assert (row.serial, row.name, row.virtual, row.listed) == ("V1", "V1", True, False)
    assert {"soc": "RK3568", "abi": "x86_64", "virtual": "true"}.items() <= row.labels.items()
    assert {"android", "sdk", "model", "ram_gb"} <= row.labels.keys()
    eventually(lambda: device(farm).temperature_c is not None)
    assert device(farm).has_battery is False


def test_the_inventory_names_it_while_the_farm_runs_and_a_wrong_file_changes_nothing(farm: RealFarm) -> None:
    path = farm.state / "devices.yaml"
    path.write_text("virtual: true\ndevices:\n  - {serial: V1, name: board-1, pool: demo}\n")
    eventually(lambda: device(farm).name == "board-1")
    path.write_text("virtual: true\ndevices:\n  - {serail: V1}\n")

    def errors() -> list[str]:
        with farm.db.read() as session:
            return list(inventories.errors(session))

    assert "did you mean serial?" in eventually(errors)[0]
    assert device(farm).name == "board-1"
    path.write_text("virtual: true\n")
    eventually(lambda: device(farm).name == "V1")


def test_a_second_device_with_the_same_serial_number_is_not_used(farm: RealFarm) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    twin = fleet.start("rk3568", "V1", farm.state.with_name(farm.state.name + "-twin"), port=port, data_mb=64)
    first = device(farm).address
    (farm.state / "devices.yaml").write_text(f'virtual: true\nconnect: ["{twin.address}"]\n')
    eventually(lambda: "V1 answers at" in farm.log_tail(), LONG_S)
    assert device(farm).address == first
    fleet.stop(twin.dir.parent, "V1")
    (farm.state / "devices.yaml").write_text("virtual: true\n")


def test_a_reboot_is_seen_and_the_device_comes_back(farm: RealFarm) -> None:
    boot_id = device(farm).boot_id
    farm.fault("V1", "reboot")
    eventually(lambda: device(farm).boot_id not in (None, boot_id), LONG_S)
    farm.ready(1)
    with farm.db.read() as session:
        kinds = set(session.scalars(select(tables.DeviceEvent.kind)))
    assert {"first-seen", "connection", "rebooted", "temperature"} <= kinds
