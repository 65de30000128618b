"""The operating system of one boot: adbd, logd, properties and services in one process.

Arguments: fd of the channel to the hardware, cgroup fds that a command joins.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.adb.wire.packets import Banner
from farm.adb.wire.server import Connection
from virtual import profiles
from virtual.android import adbd, commands, duty_cycle, noise, tombstones
from virtual.android.calls import CallServer
from virtual.android.logd import Logd
from virtual.android.processes import Processes
from virtual.android.properties import Properties
from virtual.android.settings import Settings
from virtual.android.spawner import ZygoteSpawner
from virtual.channel import Channel, Message
from virtual.sandbox import HARDWARE

log = logging.getLogger("virtual.android")

WATCH_S = 0.5


class Android:
    """What services share: profile, live state, properties, logs, processes."""

    def __init__(self, hardware: Channel, cgroup_fds: list[int]) -> None:
        self.hardware = hardware
        folder = Path(HARDWARE)
        self.profile = profiles.from_json((folder / "profile.json").read_text())
        self.device: dict[str, Any] = json.loads((folder / "device.json").read_text())
        self.booted_at = time.monotonic()
        self.properties = Properties(self._initial_properties())
        self.logd = Logd()
        self.processes = Processes(self)
        self.settings = Settings()
        self.screen_on = self.profile.screen is not None
        self.stay_on = False
        self.connections: set[Connection] = set()
        self.spawner = ZygoteSpawner(cgroup_fds, lambda crash: tombstones.record(self, crash))
        self.adbd = adbd.Adbd(self)
        self._doorkeeper: adbd.Doorkeeper | None = None
        self._thermal_status = 0

    def state(self) -> dict[str, Any]:
        """What the hardware shows right now."""
        state: dict[str, Any] = json.loads(Path(HARDWARE, "state.json").read_text())
        return state

    def _initial_properties(self) -> dict[str, str]:
        values = dict(self.profile.properties)
        serial, machine = self.device["serial"], os.uname().machine
        values |= {
            "ro.serialno": serial,
            "ro.boot.serialno": serial,
            "ro.product.cpu.abi": machine,
            "ro.product.cpu.abilist": machine,
            "ro.product.cpu.abilist64": machine,
            "ro.product.cpu.abilist32": "",
            "ro.farm.virtual": "1",
            "ro.farm.profile": self.profile.name,
            "ro.farm.limiter": self.device["limiter"],
            "ro.farm.time_scale": f"{self.device['time_scale']:g}",
            "ro.bootmode": "unknown",
            "ro.debuggable": "1" if values.get("ro.build.type") == "userdebug" else "0",
            "ro.secure": "1",
            "ro.adb.secure": "0",
            "ro.crypto.state": "unencrypted",
            "init.svc.adbd": "running",
            "init.svc.logd": "running",
            "sys.usb.config": "adb",
            "sys.usb.state": "adb",
            "service.adb.tcp.port": str(self.device["port"]),
            "persist.sys.timezone": "UTC",
        }
        return values

    def banner(self) -> bytes:
        """What adb is told at connect."""
        shown = ("ro.product.name", "ro.product.model", "ro.product.device")
        properties = {name: self.properties.get(name) for name in shown}
        return Banner("device", properties, frozenset()).encode(adbd.FEATURES)

    # --- life

    async def run(self) -> None:
        """Boots and serves until the hardware cuts the power or a reboot is asked for."""
        await self.spawner.start()
        await CallServer(self, commands.COMMANDS).start()
        noise.boot_lines(self)
        self.properties.set("sys.boot_completed", "1")
        self.properties.set("dev.bootcomplete", "1")
        self.properties.set("sys.boot.reason", "reboot")
        parts = [self._watch(), noise.run(self)]
        if self.device["limiter"] == "duty-cycle":
            parts.append(duty_cycle.run(self))
        tasks = [asyncio.create_task(part) for part in parts]
        self.hardware.send({"op": "ready"})
        with contextlib.suppress(EOFError):
            while True:
                message, fds = await self.hardware.receive()
                self._on_message(message, fds)
        for task in tasks:
            task.cancel()

    async def _watch(self) -> None:
        while True:
            self.hardware.send(self.processes.survey())
            status = int(self.state()["thermal_status"])
            if status != self._thermal_status:
                noise.thermal_status(self, self._thermal_status, status)
                self._thermal_status = status
            await asyncio.sleep(WATCH_S)

    def _on_message(self, message: Message, fds: list[int]) -> None:
        operations: dict[str, Callable[[], object]] = {
            "connection": lambda: self._connect(fds[0]),
            "drop-connections": self._drop_connections,
            "slow-shell": lambda: self._slow_shell(float(message["delay_ms"]) / 1000),
            "hang": lambda: self.spawner.free.clear() if message["on"] else self.spawner.free.set(),
            "unauthorized": lambda: self._refuse_keys(message["on"]),
            "kill": lambda: self.hardware.send({"op": "killed", "pids": self.processes.kill_named(message["name"])}),
            "fill-data": lambda: self.hardware.send({"op": "data-filled", "error": _fill_data(message["on"])}),
        }
        operation = operations.get(message["op"])
        if operation is not None:
            operation()

    def _slow_shell(self, delay_s: float) -> None:
        self.spawner.delay_s = delay_s

    def _refuse_keys(self, on: bool) -> None:
        """Who is connected must come again, and finds a door that no key opens; or one that is open."""
        self._doorkeeper = adbd.Doorkeeper() if on else None
        self._drop_connections()

    def _connect(self, fd: int) -> None:
        connection = Connection(
            self.banner, self.adbd.registry, authenticator=self._doorkeeper, on_lost=self.connections.discard
        )
        self.connections.add(connection)
        sock = socket.socket(fileno=fd)
        asyncio.get_running_loop().create_task(self._serve(connection, sock))

    async def _serve(self, connection: Connection, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)

    def _drop_connections(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def reboot(self, reason: str) -> None:
        """Goes down; the board boots us again."""
        self.logd.write("I", "init", f"Received sys.powerctl='reboot,{reason}' from pid: 1", buffer="kernel", pid=0)
        self.hardware.send({"op": "going-down"})
        self._drop_connections()
        await asyncio.sleep(0.1)
        os._exit(0)


def _fill_data(on: bool) -> str | None:
    """Takes all free space of /data with one file, where /data cannot be made smaller."""
    path = Path("/data/misc/.full")
    try:
        if not on:
            path.unlink(missing_ok=True)
            return None
        status = os.statvfs("/data")
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize))
    except OSError as error:
        return str(error)
    return None


def main() -> None:
    """Runs one boot."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    ctypes.CDLL(None).prctl(15, b"adbd", 0, 0, 0)
    hardware_fd, *cgroup_fds = [int(value) for value in sys.argv[1:]]
    os.umask(0)

    async def start() -> None:
        await Android(Channel.from_fd(hardware_fd), cgroup_fds).run()

    asyncio.run(start())
