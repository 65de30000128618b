"""Fixtures with virtual devices under the stock adb. Loaded for every test by `tests/conftest.py`.

    def test_something(virtual_device, adb_server):
        device = virtual_device("rk3568")                  # of this session, one per arguments
        adb_server.run("-s", device.address, "shell", "ls")
        fleet.fault(device.dir.parent, device.serial, "unplug", for_s=2)

`virtual_device(profile, fresh=True)` starts one that nobody else uses and that ends with the test: for faults. The
adb server is this session's own, on a port of its own; `adb_server.environment` makes other tools use it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests import leftovers
from tests.waiting import eventually
from virtual import fleet

COMMAND_S = 60.0
DATA_MB = 512


@dataclass(frozen=True, slots=True)
class AdbServer:
    """An adb server of this test session."""

    adb: str
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make any adb client use this server."""
        return os.environ | {"ANDROID_ADB_SERVER_PORT": str(self.port), "ADB_MDNS_AUTO_CONNECT": "0"}

    def run(
        self, *arguments: str, timeout: float = COMMAND_S, check: bool = True, input: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs one adb command."""
        feed: dict[str, Any] = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        done = subprocess.run(
            [self.adb, *arguments], env=self.environment, capture_output=True, timeout=timeout, **feed
        )
        if check and done.returncode != 0:
            raise AssertionError(f"adb {arguments} ended with {done.returncode}: {done.stdout!r} {done.stderr!r}")
        return done

    def shell(self, device: fleet.Running, command: str, **options: Any) -> str:
        """Standard output of a shell command, stripped."""
        return self.run("-s", device.address, "shell", command, **options).stdout.decode().strip()

    def connect(self, device: fleet.Running) -> None:
        """Connects (again) and waits until the device answers: what adb lists may be a connection that just died."""

        def answers() -> bool:
            self.run("connect", device.address, check=False)
            try:
                done = self.run("-s", device.address, "shell", "echo here", check=False, timeout=20)
            except subprocess.TimeoutExpired:
                return False
            return done.stdout.strip() == b"here"

        eventually(answers, what=f"{device.serial} answers at {device.address}")


class StartVirtualDevice(Protocol):
    """The `virtual_device` fixture."""

    def __call__(self, profile: str = "rk3568", *, fresh: bool = False, **options: Any) -> fleet.Running: ...


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def adb_server() -> Iterator[AdbServer]:
    """The session's adb server, of the adb that adbutils brings."""
    from adbutils import adb_path

    server = AdbServer(adb_path(), _free_port())
    server.run("start-server")
    yield server
    server.run("kill-server", check=False)


@pytest.fixture(scope="session")
def virtual_fleet() -> Iterator[Path]:
    """Folder of the session's devices; short, as sockets lie in it."""
    folder = leftovers.folder("vd-")
    yield folder
    fleet.stop_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _start_device(virtual_fleet: Path, adb_server: AdbServer) -> Callable[..., fleet.Running]:
    numbers = itertools.count(1)

    def start(profile: str, **options: Any) -> fleet.Running:
        for tool in ("bwrap", "mksh", "toybox"):
            if shutil.which(tool) is None:
                pytest.skip(f"virtual devices need {tool}")
        serial = f"VT{os.getpid()}N{next(numbers)}"
        device = fleet.start(profile, serial, virtual_fleet, **{"data_mb": DATA_MB, "port": _free_port()} | options)
        adb_server.connect(device)
        return device

    return start


@pytest.fixture(scope="session")
def _shared_devices() -> dict[str, fleet.Running]:
    return {}


@pytest.fixture
def virtual_device(
    _start_device: Callable[..., fleet.Running],
    _shared_devices: dict[str, fleet.Running],
    virtual_fleet: Path,
    adb_server: AdbServer,
) -> Iterator[StartVirtualDevice]:
    """Starts devices: shared ones live for the session, fresh ones for the test."""
    fresh_ones: list[fleet.Running] = []

    def start(profile: str = "rk3568", *, fresh: bool = False, **options: Any) -> fleet.Running:
        if fresh:
            fresh_ones.append(_start_device(profile, **options))
            return fresh_ones[-1]
        key = repr((profile, sorted(options.items())))
        if key in _shared_devices:
            adb_server.connect(_shared_devices[key])  # an earlier test may have rebooted or unplugged it
        else:
            _shared_devices[key] = _start_device(profile, **options)
        return _shared_devices[key]

    yield start
    for device in fresh_ones:
        adb_server.run("disconnect", device.address, check=False)
        fleet.stop(virtual_fleet, device.serial)
