"""The hands at the test bench: does to one device's hardware what `virtual.faults` lets be asked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from virtual import faults
from virtual.hardware import Hardware


class Bench:
    """Implements `faults.Faulty`."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._timers: set[asyncio.TimerHandle] = set()

    def _later(self, delay_s: float | None, action: Any) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if delay_s is not None:
            self._timers.add(asyncio.get_running_loop().call_later(delay_s, action))

    async def unplug(self, for_s: float | None) -> faults.Answer:
        """The cable is out: connections break, new ones are refused."""
        self._hardware.unplugged = True
        self._hardware.port.close()
        self._hardware.system.send({"op": "drop-connections"})
        self._later(for_s, self._plug_in)
        return {"for_s": for_s}

    def _plug_in(self) -> None:
        self._hardware.unplugged = False
        self._hardware.open_port()

    async def replug(self) -> faults.Answer:
        self._later(None, None)
        self._plug_in()
        return {}

    async def offline(self, for_s: float) -> faults.Answer:
        """Connections break; new ones are taken and never answered."""
        self._hardware.offline_until = time.monotonic() + for_s
        self._hardware.system.send({"op": "drop-connections"})
        asyncio.get_running_loop().call_later(for_s, self._let_go)
        return {"for_s": for_s}

    def _let_go(self) -> None:
        for connection in self._hardware.held:
            connection.close()
        self._hardware.held.clear()

    async def reboot(self) -> faults.Answer:
        before = self._hardware.boot_id
        self._hardware.board.send({"op": "reset"})
        return {"boot_id_before": before}

    async def disk_full(self, on: bool) -> faults.Answer:
        size = None if on else self._hardware.data_bytes
        request = {"op": "data-size", "bytes": size}
        answer = await self._hardware.ask(self._hardware.board, request, "data-size-set")
        if answer["error"] is not None:
            answer = await self._hardware.ask(self._hardware.system, {"op": "fill-data", "on": on}, "data-filled")
        if answer["error"] is not None:
            raise faults.FaultError(f"/data: {answer['error']}")
        return {"on": on}

    async def heat(self, watts: float | None, to_c: float | None) -> faults.Answer:
        self._hardware.thermal.extra_w = watts or 0.0
        self._hardware.thermal.hold_c = to_c
        self._hardware.thermal.advance(0.0, 1e-3)
        self._hardware.tick()
        return {"watts": self._hardware.thermal.extra_w, "to_c": to_c}

    async def kill(self, name: str) -> faults.Answer:
        answer = await self._hardware.ask(self._hardware.system, {"op": "kill", "name": name}, "killed")
        return {"pids": answer["pids"]}

    async def slow_shell(self, delay_ms: float) -> faults.Answer:
        self._hardware.system.send({"op": "slow-shell", "delay_ms": delay_ms})
        return {"delay_ms": delay_ms}

    async def hang(self, on: bool) -> faults.Answer:
        """adb is answered and no command starts; what was asked meanwhile starts when it is over."""
        self._hardware.system.send({"op": "hang", "on": on})
        return {"on": on}

    async def unauthorized(self, on: bool) -> faults.Answer:
        """As a phone whose user took back the permission: connections break, and new ones wait for a key."""
        self._hardware.system.send({"op": "unauthorized", "on": on})
        return {"on": on}

    async def battery(self, level_pct: float) -> faults.Answer:
        model = self._hardware.battery
        if model is None:
            raise faults.FaultError("it has no battery")
        model.charge_mah = model.battery.capacity_mah * level_pct / 100
        self._hardware.tick()
        return {"level": model.level_pct}

    async def status(self) -> faults.Answer:
        extra: dict[str, Any] = {
            "serial": self._hardware.config.serial,
            "profile": self._hardware.profile.name,
            "limiter": self._hardware.limiter.name,
        }
        extra |= {
            "booted": self._hardware.ready.is_set(),
            "unplugged": self._hardware.unplugged,
            "workload": self._hardware.usage,
        }
        return self._hardware.state() | {"battery": self._hardware.battery_facts()} | extra
