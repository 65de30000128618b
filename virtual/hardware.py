"""One device's hardware: what stands outside the sandbox and owns port, heat, limiter and power.

It starts the sandbox, hands accepted connections in to adbd, moves the thermal model by the workload's CPU time, and
shows the result in /sys and to Android's services. Hands on it are `virtual.bench`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from virtual import faults, limiter, profiles, sandbox
from virtual.battery import STATUS_NAMES, BatteryModel
from virtual.channel import Channel, Message
from virtual.port import Port
from virtual.sysfs import Sysfs
from virtual.thermal import ThermalModel

log = logging.getLogger("virtual.hardware")

TICK_S = 0.2
READY_S = 90.0  # a boot takes a second; on a host with no CPU to spare it may take fifty times as long
POWER_OFF_S = 10.0
FAILED_BOOTS_MAX = 3
"""Boots in a row that end before they are up: then the device is broken and says so."""


@dataclass(frozen=True, slots=True)
class Config:
    """How to start one device."""

    serial: str
    profile: str
    folder: str
    port: int | None
    time_scale: float
    data_mb: int | None
    limiter: str | None


class Hardware:
    """One running device; see the module."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.folder = Path(config.folder)
        self.profile = profiles.load(config.profile)
        self.data_bytes = (config.data_mb or self.profile.storage.data_mb) << 20
        self.port = Port(config.port)
        self.limiter = limiter.choose(config.serial, config.limiter)
        self.thermal = ThermalModel(self.profile.thermal, config.time_scale)
        self.battery = BatteryModel.of(self.profile.battery) if self.profile.battery else None
        self.sysfs = Sysfs(self.folder, self.profile)
        self.boot_id = ""
        self.ready = asyncio.Event()
        self.board, self._board_end = Channel.pair()
        self.system, self._system_end = Channel.pair()
        self._sandbox: asyncio.subprocess.Process | None = None
        self.unplugged = False
        self.offline_until = 0.0
        self.held: list[socket.socket] = []
        self._failed_boots = 0
        self._replies: dict[str, asyncio.Future[Message]] = {}
        self.usage: Message = {"rss_kb": 0, "cpu_s": 0.0, "processes": 0}
        self._cpu_seen = self.limiter.cpu_seconds() or 0.0
        self._busy_cores = 0.0
        self._throttled_s: float | None = None
        self._last_tick = time.monotonic()
        self._stop = asyncio.Event()

    # --- life

    async def run(self) -> None:
        """Lives until SIGTERM, or until the sandbox is gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._write_description()
        self.tick()
        await self._start_sandbox()
        parts = [self._read_board(), self._read_system(), self._accept(), self._ticks(), self._sandbox_end()]
        tasks = [asyncio.create_task(part) for part in parts]
        announce = asyncio.create_task(self._announce())
        stop = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            if task.exception() is not None:
                log.error("part of the device failed", exc_info=task.exception())
        self.port.close()
        await self._power_off()
        for task in [*tasks, announce, stop]:
            task.cancel()
        self.limiter.close()

    async def _announce(self) -> None:
        try:
            await asyncio.wait_for(self.ready.wait(), READY_S)
        except TimeoutError:
            report({"error": f"{self.config.serial} did not boot in {READY_S:g} s; see {self.folder}/hardware.log"})
            self._stop.set()
            return
        running = {
            "serial": self.config.serial,
            "profile": self.profile.name,
            "port": self.port.number,
            "address": f"127.0.0.1:{self.port.number}",
            "pid": os.getpid(),
            "limiter": self.limiter.name,
            "time_scale": self.config.time_scale,
        }
        temporary = self.folder / "device.json.new"
        temporary.write_text(json.dumps(running))
        temporary.rename(self.folder / "device.json")
        report({"ready": running})

    def _write_description(self) -> None:
        (self.folder / "hardware").mkdir(exist_ok=True)
        (self.folder / "hardware" / "profile.json").write_text(profiles.to_json(profiles.without_trips(self.profile)))
        device = {
            "serial": self.config.serial,
            "limiter": self.limiter.name,
            "time_scale": self.config.time_scale,
            "port": self.port.number,
        }
        (self.folder / "hardware" / "device.json").write_text(json.dumps(device))

    async def _start_sandbox(self) -> None:
        privileged = os.geteuid() == 0
        entries = self.limiter.entry_fds()
        fds = [self._board_end.fileno(), self._system_end.fileno(), *entries]
        command = sandbox.python_command("virtual.board", *map(str, fds))
        argv = sandbox.outer_command(self.folder, self.data_bytes, privileged, command)
        self._sandbox = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr, pass_fds=fds
        )
        self._board_end.close()
        self._system_end.close()
        self._power_on()

    async def _sandbox_end(self) -> None:
        assert self._sandbox is not None
        await self._sandbox.wait()

    async def _power_off(self) -> None:
        if self._sandbox is not None and self._sandbox.returncode is None:
            self._sandbox.kill()
            await asyncio.wait_for(self._sandbox.wait(), POWER_OFF_S)

    def _power_on(self) -> None:
        self.boot_id = str(uuid.uuid4())
        self.sysfs.boot_id.set(self.boot_id + "\n")
        self.sysfs.booted_at = time.monotonic()
        self._publish()
        self.board.send({"op": "boot"})

    # --- messages from inside

    async def _read_board(self) -> None:
        while True:
            message, _ = await self.board.receive()
            if message["op"] == "off":
                log.info("system is off (code %s)", message.get("code"))
                self._failed_boots = 0 if self.ready.is_set() else self._failed_boots + 1
                if self._failed_boots >= FAILED_BOOTS_MAX:
                    report({"error": f"{self.config.serial} does not boot; see {self.folder}/hardware.log"})
                    return
                self.ready.clear()
                self.port.close()
                self._power_on()
            elif message["op"] in self._replies:
                self._replies.pop(message["op"]).set_result(message)

    async def _read_system(self) -> None:
        while True:
            message, _ = await self.system.receive()
            if message["op"] == "ready":
                self.ready.set()
                self.open_port()
            elif message["op"] == "usage":
                self.usage = message
            elif message["op"] == "going-down":
                self.port.close()
            elif message["op"] in self._replies:
                self._replies.pop(message["op"]).set_result(message)

    async def ask(self, channel: Channel, message: Message, reply: str) -> Message:
        """Sends to a part inside and waits for its reply; raises `FaultError` when none comes."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[reply] = future
        if not channel.send(message):
            raise faults.FaultError("the device does not answer")
        try:
            return await asyncio.wait_for(future, 10.0)
        except TimeoutError:
            raise faults.FaultError("the device does not answer") from None

    # --- port

    def open_port(self) -> None:
        """Takes connections when the system is up and the cable is in."""
        if self.ready.is_set() and not self.unplugged:
            self.port.open()

    async def _accept(self) -> None:
        while True:
            connection = await self.port.accept()
            if time.monotonic() < self.offline_until:
                self.held.append(connection)
                continue
            self.system.send({"op": "connection"}, connection.fileno())
            connection.close()

    # --- time

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Moves the models on to now and shows the result."""
        now = time.monotonic()
        elapsed = max(1e-3, now - self._last_tick)
        self._last_tick = now
        used = self.limiter.cpu_seconds()
        if used is None:
            used = float(self.usage["cpu_s"])
        # The device's own counting starts again at a reboot.
        self._busy_cores = max(0.0, used - self._cpu_seen) / elapsed
        self._cpu_seen = used
        self._throttled_s = self.limiter.throttled_seconds()
        self.thermal.advance(self._busy_cores, elapsed)
        if self.battery is not None:
            load = self.profile.thermal.idle_w + self._busy_cores * self.profile.thermal.watts_per_busy_core
            self.battery.advance(load, elapsed * self.config.time_scale)
        self.limiter.set_cores(self.cores)
        self._publish()

    @property
    def cores(self) -> float:
        """Host cores that the workload may use now."""
        return self.profile.cpu.capacity * self.thermal.capacity_factor

    def _publish(self) -> None:
        zones = self.thermal.zones()
        busy_share = self._busy_cores / max(self.cores, 1e-6)
        battery = self.battery_facts()
        files: dict[str, int | str] = {}
        if battery:
            status = STATUS_NAMES[int(battery["status"])]
            files = {"capacity": battery["level"], "temp": battery["temperature"], "status": status}
            files |= {"voltage_now": int(battery["voltage"]) * 1000, "charge_counter": battery["charge_counter"]}
            files |= {"current_now": battery["current_now"] * 1000}
        self.sysfs.update(zones, self.thermal.capacity_factor, busy_share, int(self.usage["rss_kb"]), files)
        state = self.state() | {"battery": battery}
        temporary = self.folder / "hardware" / "state.json.new"
        temporary.write_text(json.dumps(state))
        temporary.rename(self.folder / "hardware" / "state.json")

    def state(self) -> dict[str, Any]:
        """What the device is right now."""
        return {
            "zones": [[name, round(temperature, 3)] for name, temperature in self.thermal.zones()],
            "thermal_status": self.thermal.status,
            "throttle_level": self.thermal.throttle.level,
            "capacity_factor": self.thermal.capacity_factor,
            "cores": round(self.cores, 4),
            "busy_cores": round(self._busy_cores, 4),
            "cpu_s": round(self._cpu_seen, 4),
            "throttled_s": self._throttled_s if self._throttled_s is not None else self.usage.get("stopped_s"),
            "at_s": round(self._last_tick, 4),
            "boot_id": self.boot_id,
            "uptime_s": round(time.monotonic() - self.sysfs.booted_at, 2),
        }

    def battery_facts(self) -> dict[str, int]:
        """In Android's units; empty without a battery."""
        if self.battery is None:
            return {}
        temperature = self.thermal.network.temperatures[self.battery.battery.node]
        return {
            "level": self.battery.level_pct,
            "status": self.battery.status,
            "temperature": round(temperature * 10),
            "voltage": self.battery.battery.voltage_mv,
            "charge_counter": round(self.battery.charge_mah * 1000),
            "current_now": round(self.battery.current_ma),
        }


def report(message: dict[str, Any]) -> None:
    """Tell whoever started this process how the start went; once."""
    print(json.dumps(message), flush=True)
    # The one who started us waits for this line alone; nobody reads what comes later.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def config_json(config: Config) -> str:
    """The argument of `virtual.device`."""
    return json.dumps(asdict(config))
