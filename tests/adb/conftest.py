"""The farm's own adb server, and virtual devices under it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.adb.server import AdbServer
from tests import leftovers
from tests.devices import StartVirtualDevice
from tests.waiting import eventually
from virtual import fleet


@dataclass(frozen=True, slots=True)
class Phone:
    """A virtual device, connected to the farm's adb server."""

    server: AdbServer
    running: fleet.Running

    @property
    def address(self) -> str:
        return self.running.address

    def device(self, serial: str | None = None) -> Device:
        return Device(self.server.host, self.server.port, self.address, serial=serial)

    def connect(self) -> None:
        def online() -> bool:
            try:
                self.server.connect(self.address)
                return self.device().state() == "device"
            except AdbError:
                return False

        eventually(online, what=f"{self.address} is online")

    def fault(self, kind: str, **arguments: Any) -> None:
        answer = fleet.fault(self.running.dir.parent, self.running.serial, kind, **arguments)
        assert "error" not in answer, answer


class Phones(Protocol):
    def __call__(self, profile: str = "pixel-8-pro", *, fresh: bool = False, **options: Any) -> Phone: ...


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def farm_server() -> Iterator[AdbServer]:
    folder = leftovers.folder("fa-")
    server = AdbServer(free_port(), folder / "adb", usb=False)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[AdbServer]:
    """An adb server that a test may kill."""
    server = AdbServer(free_port(), tmp_path / "adb", usb=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def phone(farm_server: AdbServer, virtual_device: StartVirtualDevice) -> Phones:
    """Devices of the session (shared: leave them clean), or with `fresh=True` of the test alone."""

    def start(profile: str = "pixel-8-pro", *, fresh: bool = False, **options: Any) -> Phone:
        found = Phone(farm_server, virtual_device(profile, fresh=fresh, **options))
        found.connect()
        return found

    return start
