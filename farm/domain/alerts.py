"""What a person should see to: rules over the fleet as it is, without a clock.

Trouble that strikes one host together (one air conditioner, one hub) is one alert and not one per device; the loss of
the last device of a kind is one of its own, however it came. Each alert names a kind and what it is about, is open
while its rule holds, and clears by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

#: Trouble that began within this time is one trouble.
TOGETHER = timedelta(seconds=60)
#: So many devices of a host in trouble together are the host's trouble; or all of them, from two on.
MANY = 3
#: A device that restarts, or whose cable was touched, is no alert before this.
AT_LEAST = timedelta(seconds=30)

LAST_OF_ITS_KIND = "last-of-its-kind"
HOST_TROUBLE = "host-trouble"
HOST_LOST = "host-lost"
DUPLICATE_SERIAL = "duplicate-serial"
ADB_SERVER = "adb-server"
KINDS = (LAST_OF_ITS_KIND, HOST_TROUBLE, HOST_LOST, DUPLICATE_SERIAL, ADB_SERVER)
HOST_UNREADY = "host-unready"


@dataclass(frozen=True, slots=True)
class Member:
    """A device of the fleet. `trouble`: why it cannot be used, with `since`; None: it can, or is just busy."""

    id: int
    name: str
    kind: str  # device type, or model
    host: str
    trouble: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class HostState:
    """A host as its agent last told of itself."""

    name: str
    silent: bool
    silent_since: datetime | None = None
    adb_trouble: str | None = None
    duplicates: tuple[tuple[str, tuple[str, ...]], ...] = ()  # serial number → the addresses that say it
    unready: str | None = None  # why it must not be given work
    rivals: tuple[tuple[str, str], ...] = ()  # (serial number, the other host that has a device of it)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An alert that should be open now."""

    kind: str
    ref: str
    message: str
    detail: dict[str, Any] = field(default_factory=dict)


def wanted(members: Iterable[Member], hosts: Iterable[HostState], now: datetime) -> list[Wanted]:
    """Every alert that holds now, by kind and ref; the order of the arguments does not matter."""
    fleet = sorted(members, key=lambda m: (m.host, m.name, m.id))
    found: list[Wanted] = []
    for host in sorted(hosts, key=lambda h: h.name):
        found += _of_host(host, [m for m in fleet if m.host == host.name], now)
    return sorted(found + _last_ones(fleet, now), key=lambda a: (a.kind, a.ref))


def _of_host(host: HostState, its: Sequence[Member], now: datetime) -> list[Wanted]:
    found: list[Wanted] = []
    if host.silent and its:
        none = "its device cannot" if len(its) == 1 else f"none of its {len(its)} devices can"
        words = f"host {host.name} is silent: {none} be used. Does its agent run?"
        found.append(Wanted(HOST_LOST, host.name, words, {"devices": [m.name for m in its]}))
    elif (struck := _struck_together(its, now)) is not None:
        names = ", ".join(m.name for m in struck[:6]) + (f" and {len(struck) - 6} more" if len(struck) > 6 else "")
        words = (
            f"{len(struck)} of {len(its)} devices of host {host.name} failed together: {names}. "
            "Look at its hub, power, network and cooling first"
        )
        detail = {"devices": [m.name for m in struck], "why": {m.name: m.trouble for m in struck}}
        found.append(Wanted(HOST_TROUBLE, host.name, words, detail))
    if host.adb_trouble and not host.silent:
        found.append(Wanted(ADB_SERVER, host.name, f"host {host.name}: {host.adb_trouble}"))
    if host.unready and not host.silent:
        found.append(Wanted(HOST_UNREADY, host.name, f"host {host.name} is given no work: {host.unready}"))
    for serial, addresses in host.duplicates:
        where = " and ".join(addresses)
        words = (
            f"two devices on host {host.name} have the serial number {serial} (at {where}): neither is used. "
            "Unplug one, or give it a number of its own"
        )
        found.append(Wanted(DUPLICATE_SERIAL, f"{host.name}/{serial}"[:200], words, {"addresses": list(addresses)}))
    for serial, other in host.rivals:
        both = [f"{other}/{serial}", f"{host.name}/{serial}"]
        words = (
            f"two devices on two hosts have the serial number {serial}: {' and '.join(both)}; neither is used. "
            "Unplug one, or give it a number of its own"
        )
        found.append(Wanted(DUPLICATE_SERIAL, f"{host.name}/{serial}"[:200], words, {"devices": both}))
    return found


def _struck_together(its: Sequence[Member], now: datetime) -> list[Member] | None:
    """The largest group of a host's devices whose trouble began within one minute, when it is large enough."""
    troubled = sorted((m for m in its if _lasts(m, now)), key=lambda m: (m.since or now, m.id))
    best: list[Member] = []
    for first in troubled:
        start = first.since or now
        group = [m for m in troubled if start <= (m.since or now) <= start + TOGETHER]
        best = group if len(group) > len(best) else best
    enough = len(best) >= MANY or (len(best) >= 2 and len(best) == len(its))
    return best if enough else None


def _lasts(member: Member, now: datetime) -> bool:
    return member.trouble is not None and (member.since is None or now - member.since >= AT_LEAST)


def _last_ones(fleet: Sequence[Member], now: datetime) -> list[Wanted]:
    kinds: defaultdict[str, list[Member]] = defaultdict(list)
    for member in fleet:
        kinds[member.kind].append(member)
    found = []
    for kind, its in kinds.items():
        if all(_lasts(m, now) for m in its):
            why = "; ".join(f"{m.name}: {m.trouble}" for m in its[:4]) + (" …" if len(its) > 4 else "")
            words = f"no {kind} can be used any more ({why})"
            found.append(Wanted(LAST_OF_ITS_KIND, kind[:200], words, {"devices": [m.name for m in its]}))
    return found
