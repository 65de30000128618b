"""One device's hardware: the process outside the sandbox that owns port, heat, limiter and power.

It starts the sandbox, hands accepted connections in to adbd, moves the thermal model by the workload's CPU time, shows
the result in /sys and to Android's services, and does what the control socket asks. It reports on standard output, once,
{"ready": …} or {"error": …}.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from virtual.sysfs import Sysfs
from virtual.thermal import ThermalModel

log = logging.getLogger("virtual.hardware")

TICK_S = 0.2
READY_S = 30.0
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


class Port:
    """A listening TCP port that can be closed and opened again without losing its number."""

    def __init__(self, port: int | None, first: int = 5600) -> None:
        self._listener, self.number = self._bind(port, first)
        self._listening = False

    @staticmethod
    def _bind(port: int | None, first: int) -> tuple[socket.socket, int]:
        for candidate in [port] if port is not None else range(first, first + 400):
            listener = socket.socket()
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections may linger
            try:
                listener.bind(("127.0.0.1", candidate))
            except OSError:
                listener.close()
                continue
            # From here on nobody else may bind it, not even while we do not listen.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            return listener, candidate
        raise OSError(f"port {port} of 127.0.0.1 is taken" if port else f"no free port from {first} on")

    def open(self) -> None:
        """Connections are taken from now on."""
        if not self._listening:
            # The kernel checks the number again: connections of the time before may linger, so allow those, for now.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.listen(16)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            self._listening = True

    def close(self) -> None:
        """Connections are refused from now on; the number stays ours."""
        if self._listening:
            self._listening = False
            self._listener.shutdown(socket.SHUT_RDWR)

    async def accept(self) -> socket.socket:
        """The next connection."""
        loop = asyncio.get_running_loop()
        while True:
            if self._listening:
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:
                    pass
                else:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    return connection
            ready = asyncio.Event()
            loop.add_reader(self._listener, ready.set)
            try:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ready.wait(), 0.2)
            finally:
                loop.remove_reader(self._listener)


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
        self._board, self._board_end = Channel.pair()
        self._system, self._system_end = Channel.pair()
        self._sandbox: asyncio.subprocess.Process | None = None
        self._unplugged = False
        self._offline_until = 0.0
        self._held: list[socket.socket] = []
        self._failed_boots = 0
        self._replies: dict[str, asyncio.Future[Message]] = {}
        self._usage: Message = {"rss_kb": 0, "cpu_s": 0.0, "processes": 0}
        self._cpu_seen = self.limiter.cpu_seconds() or 0.0
        self._busy_cores = 0.0
        self._last_tick = time.monotonic()
        self._stop = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()

    # --- life

    async def run(self) -> None:
        """Lives until SIGTERM, or until the sandbox is gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._write_description()
        self._tick()
        await self._start_sandbox()
        control = await asyncio.start_unix_server(self._control, self.folder / "control.sock", limit=1 << 16)
        parts = [self._read_board(), self._read_system(), self._accept(), self._ticks(), self._sandbox_end()]
        tasks = [asyncio.create_task(part) for part in parts]
        announce = asyncio.create_task(self._announce())
        stop = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            if task.exception() is not None:
                log.error("part of the device failed", exc_info=task.exception())
        control.close()
        self.port.close()
        await self._power_off()
        for task in [*tasks, announce, stop]:
            task.cancel()
        self.limiter.close()

    async def _announce(self) -> None:
        try:
            await asyncio.wait_for(self.ready.wait(), READY_S)
        except TimeoutError:
            _report({"error": f"{self.config.serial} did not boot in {READY_S:g} s; see {self.folder}/hardware.log"})
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
        _report({"ready": running})

    def _write_description(self) -> None:
        (self.folder / "hardware").mkdir(exist_ok=True)
        (self.folder / "hardware" / "profile.json").write_text(profiles.to_json(self.profile))
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
        self._board.send({"op": "boot"})

    # --- messages from inside

    async def _read_board(self) -> None:
        while True:
            message, _ = await self._board.receive()
            if message["op"] == "off":
                log.info("system is off (code %s)", message.get("code"))
                self._failed_boots = 0 if self.ready.is_set() else self._failed_boots + 1
                if self._failed_boots >= FAILED_BOOTS_MAX:
                    _report({"error": f"{self.config.serial} does not boot; see {self.folder}/hardware.log"})
                    return
                self.ready.clear()
                self.port.close()
                self._power_on()
            elif message["op"] in self._replies:
                self._replies.pop(message["op"]).set_result(message)

    async def _read_system(self) -> None:
        while True:
            message, _ = await self._system.receive()
            if message["op"] == "ready":
                self.ready.set()
                self._open_port()
            elif message["op"] == "usage":
                self._usage = message
            elif message["op"] == "going-down":
                self.port.close()
            elif message["op"] in self._replies:
                self._replies.pop(message["op"]).set_result(message)

    async def _ask(self, channel: Channel, message: Message, reply: str) -> Message:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[reply] = future
        if not channel.send(message):
            raise faults.FaultError("the device does not answer")
        try:
            return await asyncio.wait_for(future, 10.0)
        except TimeoutError:
            raise faults.FaultError("the device does not answer") from None

    # --- port

    def _open_port(self) -> None:
        if self.ready.is_set() and not self._unplugged:
            self.port.open()

    async def _accept(self) -> None:
        while True:
            connection = await self.port.accept()
            if time.monotonic() < self._offline_until:
                self._held.append(connection)
                continue
            self._system.send({"op": "connection"}, connection.fileno())
            connection.close()

    # --- time

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._tick()

    def _tick(self) -> None:
        now = time.monotonic()
        elapsed = max(1e-3, now - self._last_tick)
        self._last_tick = now
        used = self.limiter.cpu_seconds()
        if used is None:
            used = float(self._usage["cpu_s"])
        # The device's own counting starts again at a reboot.
        self._busy_cores = max(0.0, used - self._cpu_seen) / elapsed
        self._cpu_seen = used
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
        battery = self._battery_facts()
        files: dict[str, int | str] = {}
        if battery:
            status = STATUS_NAMES[int(battery["status"])]
            files = {"capacity": battery["level"], "temp": battery["temperature"], "status": status}
            files |= {"voltage_now": int(battery["voltage"]) * 1000, "charge_counter": battery["charge_counter"]}
        self.sysfs.update(zones, self.thermal.capacity_factor, busy_share, int(self._usage["rss_kb"]), files)
        state = self._state() | {"battery": battery}
        temporary = self.folder / "hardware" / "state.json.new"
        temporary.write_text(json.dumps(state))
        temporary.rename(self.folder / "hardware" / "state.json")

    def _state(self) -> dict[str, Any]:
        return {
            "zones": [[name, round(temperature, 3)] for name, temperature in self.thermal.zones()],
            "thermal_status": self.thermal.status,
            "throttle_level": self.thermal.throttle.level,
            "capacity_factor": self.thermal.capacity_factor,
            "cores": round(self.cores, 4),
            "busy_cores": round(self._busy_cores, 4),
            "boot_id": self.boot_id,
            "uptime_s": round(time.monotonic() - self.sysfs.booted_at, 2),
        }

    def _battery_facts(self) -> dict[str, int]:
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

    # --- faults

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError, asyncio.TimeoutError):
            while line := await asyncio.wait_for(reader.readline(), 60):
                try:
                    request = json.loads(line)
                except ValueError:
                    request = None
                writer.write(json.dumps(await faults.dispatch(self, request)).encode() + b"\n")
                await writer.drain()
        writer.close()

    def _later(self, delay_s: float | None, action: Any) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if delay_s is not None:
            self._timers.add(asyncio.get_running_loop().call_later(delay_s, action))

    async def unplug(self, for_s: float | None) -> faults.Answer:
        """The cable is out: connections break, new ones are refused."""
        self._unplugged = True
        self.port.close()
        self._system.send({"op": "drop-connections"})
        self._later(for_s, self._plug_in)
        return {"for_s": for_s}

    def _plug_in(self) -> None:
        self._unplugged = False
        self._open_port()

    async def replug(self) -> faults.Answer:
        self._later(None, None)
        self._plug_in()
        return {}

    async def offline(self, for_s: float) -> faults.Answer:
        """Connections break; new ones are taken and never answered."""
        self._offline_until = time.monotonic() + for_s
        self._system.send({"op": "drop-connections"})
        asyncio.get_running_loop().call_later(for_s, self._let_go)
        return {"for_s": for_s}

    def _let_go(self) -> None:
        for connection in self._held:
            connection.close()
        self._held.clear()

    async def reboot(self) -> faults.Answer:
        before = self.boot_id
        self._board.send({"op": "reset"})
        return {"boot_id_before": before}

    async def disk_full(self, on: bool) -> faults.Answer:
        size = None if on else self.data_bytes
        answer = await self._ask(self._board, {"op": "data-size", "bytes": size}, "data-size-set")
        if answer["error"] is not None:
            answer = await self._ask(self._system, {"op": "fill-data", "on": on}, "data-filled")
        if answer["error"] is not None:
            raise faults.FaultError(f"/data: {answer['error']}")
        return {"on": on}

    async def heat(self, watts: float | None, to_c: float | None) -> faults.Answer:
        self.thermal.extra_w = watts or 0.0
        self.thermal.hold_c = to_c
        self.thermal.advance(0.0, 1e-3)
        self._tick()
        return {"watts": self.thermal.extra_w, "to_c": to_c}

    async def kill(self, name: str) -> faults.Answer:
        answer = await self._ask(self._system, {"op": "kill", "name": name}, "killed")
        return {"pids": answer["pids"]}

    async def slow_shell(self, delay_ms: float) -> faults.Answer:
        self._system.send({"op": "slow-shell", "delay_ms": delay_ms})
        return {"delay_ms": delay_ms}

    async def status(self) -> faults.Answer:
        extra: dict[str, Any] = {
            "serial": self.config.serial,
            "profile": self.profile.name,
            "limiter": self.limiter.name,
        }
        extra |= {"booted": self.ready.is_set(), "unplugged": self._unplugged, "workload": self._usage}
        return self._state() | {"battery": self._battery_facts()} | extra


def _report(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)
    # The one who started us waits for this line alone; nobody reads what comes later.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def main() -> None:
    """Argument: a `Config` as JSON."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    config = Config(**json.loads(sys.argv[1]))

    async def start() -> None:
        try:
            sandbox.require_tools()
            hardware = Hardware(config)
        except (OSError, profiles.ProfileError, sandbox.SandboxError) as error:
            _report({"error": str(error)})
            return
        await hardware.run()

    asyncio.run(start())


def config_json(config: Config) -> str:
    """The argument for `main`."""
    return json.dumps(asdict(config))


if __name__ == "__main__":
    main()
