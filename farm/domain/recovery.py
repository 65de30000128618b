"""The ladder by which a device that is lost or deaf is brought back, rung by rung, until a person must come.

    settle 5 s → (bootloader: reboot) → online 60 s → absent: power cycle → shell 30 s → boot complete, package manager
    and storage 4 min → deaf: reboot → given up to a person

Each rung either waits, for a bounded time, for the device to do something, or does one thing to it, once per recovery.
`decide` is the whole rule: where the recovery stands and what was just seen → the next rung. It holds no clock and does
nothing; `farm.work.recovery` looks, acts and writes every rung into the device's history, from which `resume` rebuilds
a recovery that a restart of the farm interrupted. The order and the times are those of Tradefed's device recovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from farm.domain.devices import REMEDIES, Connection


class Rung(StrEnum):
    """Values stand in the history of devices: never rename one."""

    SETTLE = "settle"  # waits: many losses are over at once
    LEAVE_BOOTLOADER = "leave-bootloader"  # acts: reboot out of bootloader or recovery
    RECONNECT = "reconnect"  # acts: adb makes the transport of a silent device anew
    ONLINE = "online"  # waits until adb lists it
    POWER_CYCLE = "power-cycle"  # acts: its USB port or hub, by the host's own command
    SHELL = "shell"  # waits for a command's answer
    BOOT = "boot"  # waits for boot complete, package manager and storage
    REBOOT = "reboot"  # acts
    RECOVERED = "recovered"
    GIVEN_UP = "given-up"

    @property
    def acts(self) -> bool:
        return self in _ACTIONS

    @property
    def is_last(self) -> bool:
        return self in (Rung.RECOVERED, Rung.GIVEN_UP)


_ACTIONS = frozenset({Rung.LEAVE_BOOTLOADER, Rung.RECONNECT, Rung.POWER_CYCLE, Rung.REBOOT})
#: How long each waiting rung waits.
LIMITS = {
    Rung.SETTLE: timedelta(seconds=5),
    Rung.ONLINE: timedelta(seconds=60),
    Rung.SHELL: timedelta(seconds=30),
    Rung.BOOT: timedelta(minutes=4),
}
#: No recovery goes on for longer, however often the device comes and goes.
LONGEST = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Sight:
    """What was just seen. `answers` (its shell does) and `booted` are None where nobody asked: it is not online."""

    connection: Connection
    answers: bool | None = None
    booted: bool | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery under way. `done`: actions that were taken, each at most once. `why`: what led to this rung."""

    began: datetime
    rung: Rung
    since: datetime
    done: frozenset[Rung] = frozenset()
    why: str = ""

    def is_over(self, now: datetime, pace: float = 1.0) -> bool:
        """Whether this rung has done its part; `pace` divides its limit."""
        return self.rung.acts or now - self.since >= LIMITS.get(self.rung, timedelta(0)) / pace


def begin(why: str, now: datetime) -> Recovery:
    return Recovery(now, Rung.SETTLE, now, frozenset(), why)


def decide(at: Recovery, seen: Sight, now: datetime, *, can_power_cycle: bool, pace: float = 1.0) -> Recovery:
    """The recovery after this look; the very same one while its rung goes on waiting. `pace` divides every limit."""
    if at.rung.is_last:
        return at
    if seen.connection is Connection.ONLINE and seen.answers and seen.booted:
        return _to(at, Rung.RECOVERED, now, f"it answers, after {at.rung.value}")
    if now - at.began >= LONGEST / pace:
        return _give_up(at, seen, now)
    expired = at.is_over(now, pace)
    match at.rung:
        case Rung.SETTLE:
            return _after_settling(at, seen, now) if expired else at
        case Rung.ONLINE:
            if seen.connection is Connection.ONLINE:
                return _to(at, Rung.SHELL, now, "adb lists it")
            return _absent(at, seen, now, can_power_cycle) if expired else at
        case Rung.SHELL | Rung.BOOT:
            return _listed(at, seen, now, expired, can_power_cycle)
        case _:
            return _to(at, Rung.ONLINE, now, f"{at.rung.value} was done")


def _after_settling(at: Recovery, seen: Sight, now: datetime) -> Recovery:
    where = seen.connection
    if where in (Connection.UNAUTHORIZED, Connection.DUPLICATE):
        return _give_up(at, seen, now)  # only a person can
    if where in (Connection.BOOTLOADER, Connection.RECOVERY):
        return _to(at, Rung.LEAVE_BOOTLOADER, now, f"it is in its {where.value}")
    if where is Connection.OFFLINE:
        return _to(at, Rung.RECONNECT, now, "adb gets no answer from it")
    if where is Connection.ONLINE:
        return _to(at, Rung.SHELL, now, "adb lists it")
    return _to(at, Rung.ONLINE, now, "adb does not list it")


def _absent(at: Recovery, seen: Sight, now: datetime, can_power_cycle: bool) -> Recovery:
    if seen.connection is Connection.UNAUTHORIZED or not can_power_cycle or Rung.POWER_CYCLE in at.done:
        return _give_up(at, seen, now)
    return _to(at, Rung.POWER_CYCLE, now, f"adb says {seen.connection.value} for {_seconds(at, now)} s")


def _listed(at: Recovery, seen: Sight, now: datetime, expired: bool, can_power_cycle: bool) -> Recovery:
    if seen.connection is not Connection.ONLINE:
        return _to(at, Rung.ONLINE, now, f"adb says {seen.connection.value}")
    if at.rung is Rung.SHELL and seen.answers:
        return _to(at, Rung.BOOT, now, "its shell answers")
    if not expired:
        return at
    why = seen.problem or f"no answer for {_seconds(at, now)} s"
    if Rung.REBOOT not in at.done:
        return _to(at, Rung.REBOOT, now, why)
    if can_power_cycle and Rung.POWER_CYCLE not in at.done:
        return _to(at, Rung.POWER_CYCLE, now, why)
    return _give_up(at, seen, now)


def _to(at: Recovery, rung: Rung, now: datetime, why: str) -> Recovery:
    done = at.done | {rung} if rung.acts else at.done
    return replace(at, rung=rung, since=now, done=done, why=why)


def _give_up(at: Recovery, seen: Sight, now: datetime) -> Recovery:
    tried = ", ".join(sorted(rung.value for rung in at.done)) or "nothing that the farm may do would help"
    words = seen.problem or (
        "its shell or its system does not answer"
        if seen.connection is Connection.ONLINE
        else f"adb says {seen.connection.value}"
    )
    return _to(at, Rung.GIVEN_UP, now, f"{words}; tried: {tried}")


def _seconds(at: Recovery, now: datetime) -> int:
    return round((now - at.since).total_seconds())


def advice(seen: Sight, at: Recovery, *, can_power_cycle: bool) -> str:
    """What a person is asked to do about a device that was given up."""
    if seen.connection in REMEDIES:
        return REMEDIES[seen.connection]
    if seen.connection is Connection.ONLINE:
        return "restart it by hand (hold its power key); when it stays so, take it out for maintenance"
    if can_power_cycle or Rung.POWER_CYCLE in at.done:
        return "check cable, hub and power: switching its port off and on did not help"
    return (
        "check cable, hub and power; a `power_cycle` command for its host in devices.yaml would let the farm try that"
    )


def resume(history: Iterable[tuple[datetime, str, str]]) -> Recovery | None:
    """The recovery that these rungs (time, rung, why), oldest first, leave under way; None when the last one is over.

    An action that was begun counts as done: after a restart of the farm nobody knows how far it came.
    """
    at: Recovery | None = None
    for when, word, why in history:
        try:
            rung = Rung(word)
        except ValueError:
            continue  # of a newer farm
        if rung is Rung.SETTLE or at is None:
            at = begin(why, when)
        if rung is not Rung.SETTLE:
            at = _to(at, rung, when, why)
    return None if at is None or at.rung.is_last else at
