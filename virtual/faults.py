"""What can go wrong with a virtual device on request. A real device cannot be asked this: only tests and demos use it.

Requests come as JSON lines over the control socket: {"fault": KIND, …arguments}; the answer is {"ok": true, …} or
{"error": text}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Arguments = Mapping[str, Any]
Answer = dict[str, Any]


class Faulty(Protocol):
    """What a device lets be done to it."""

    async def unplug(self, for_s: float | None) -> Answer: ...
    async def replug(self) -> Answer: ...
    async def offline(self, for_s: float) -> Answer: ...
    async def reboot(self) -> Answer: ...
    async def disk_full(self, on: bool) -> Answer: ...
    async def heat(self, watts: float | None, to_c: float | None) -> Answer: ...
    async def kill(self, name: str) -> Answer: ...
    async def slow_shell(self, delay_ms: float) -> Answer: ...
    async def hang(self, on: bool) -> Answer: ...
    async def unauthorized(self, on: bool) -> Answer: ...
    async def battery(self, level_pct: float) -> Answer: ...
    async def status(self) -> Answer: ...


class FaultError(Exception):
    """The request makes no sense or cannot be done; the message says why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind: the arguments that it takes, and how it is done."""

    arguments: frozenset[str]
    apply: Callable[[Faulty, Arguments], Awaitable[Answer]]
    help: str


def _number(arguments: Arguments, key: str, default: float | None = None, low: float = 0.0, high: float = 1e6) -> float:
    value = arguments.get(key, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise FaultError(f"{key} must be a number, not {value!r}") from None
    if not low <= number <= high:
        raise FaultError(f"{key} is {number:g}, must be between {low:g} and {high:g}")
    return number


def _flag(arguments: Arguments, key: str) -> bool:
    value = str(arguments.get(key, "on")).lower()
    if value not in ("on", "off", "true", "false", "1", "0"):
        raise FaultError(f"{key} must be on or off, not {value!r}")
    return value in ("on", "true", "1")


def _duration(arguments: Arguments) -> float | None:
    return None if arguments.get("for_s") in (None, "forever") else _number(arguments, "for_s")


def _optional(arguments: Arguments, key: str, low: float, high: float) -> float | None:
    return _number(arguments, key, low=low, high=high) if key in arguments else None


def _heat(device: Faulty, arguments: Arguments) -> Awaitable[Answer]:
    watts, to_c = _optional(arguments, "watts", -50, 200), _optional(arguments, "to_c", 0, 150)
    if watts is None and to_c is None:
        raise FaultError("heat needs watts=W (0 ends it) or to_c=TEMPERATURE")
    return device.heat(watts, to_c)


def _kill(device: Faulty, arguments: Arguments) -> Awaitable[Answer]:
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise FaultError("kill needs name=PROCESS")
    return device.kill(name)


FAULTS: dict[str, Fault] = {
    "unplug": Fault(frozenset({"for_s"}), lambda d, a: d.unplug(_duration(a)), "cable out, for_s=SECONDS or for ever"),
    "replug": Fault(frozenset(), lambda d, a: d.replug(), "cable in again"),
    "offline": Fault(
        frozenset({"for_s"}), lambda d, a: d.offline(_number(a, "for_s", 10)), "connected, but adbd is silent"
    ),
    "reboot": Fault(frozenset(), lambda d, a: d.reboot(), "sudden restart, as by the watchdog"),
    "disk-full": Fault(
        frozenset({"state"}), lambda d, a: d.disk_full(_flag(a, "state")), "no byte left on /data, state=on|off"
    ),
    "heat": Fault(frozenset({"watts", "to_c"}), _heat, "watts=W of extra heat, or to_c=°C held; watts=0 ends both"),
    "kill": Fault(frozenset({"name"}), _kill, "SIGKILL to the workload's processes called name=PROCESS"),
    "slow-shell": Fault(
        frozenset({"delay_ms"}),
        lambda d, a: d.slow_shell(_number(a, "delay_ms", high=600_000)),
        "every command starts delay_ms later",
    ),
    "hang": Fault(frozenset({"state"}), lambda d, a: d.hang(_flag(a, "state")), "no command starts, state=on|off"),
    "unauthorized": Fault(
        frozenset({"state"}), lambda d, a: d.unauthorized(_flag(a, "state")), "no key is accepted, state=on|off"
    ),
    "battery": Fault(
        frozenset({"level"}), lambda d, a: d.battery(_number(a, "level", high=100)), "its charge is level=PERCENT"
    ),
    "status": Fault(frozenset(), lambda d, a: d.status(), "what the device is right now"),
}


async def dispatch(device: Faulty, request: Any) -> Answer:
    """Does one request; never raises for what the request says."""
    try:
        if not isinstance(request, dict) or request.get("fault") not in FAULTS:
            raise FaultError(f"unknown fault; there are {', '.join(FAULTS)}")
        fault = FAULTS[request["fault"]]
        arguments = {key: value for key, value in request.items() if key != "fault"}
        unknown = sorted(set(arguments) - fault.arguments)
        if unknown:
            known = ", ".join(sorted(fault.arguments)) or "none"
            raise FaultError(f"{request['fault']} takes no {unknown[0]!r}; its arguments: {known}")
        return {"ok": True, **await fault.apply(device, arguments)}
    except FaultError as error:
        return {"error": str(error)}
