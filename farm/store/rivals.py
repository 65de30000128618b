"""One serial number on two hosts: which host has the device, and which other one says that it has another.

A device's row belongs to the host that saw it first, for as long as that host lives and sees it; afterwards whoever
sees it takes it. A host that sees another device of that serial number meanwhile says so in its own `info`: then
neither is used, and an alert names both as `host/serial`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.devices import Connection, is_silent
from farm.store import tables

#: In a host's `info`: [{"serial", "address"}], what it sees beside another host's device.
KEY = "rivals"
_THERE = (Connection.ONLINE.value, Connection.DUPLICATE.value)
_MOST = 20


@dataclass(frozen=True, slots=True)
class Owner:
    """The host that has the device now, and the boot that the device was in."""

    host: str
    boot_id: str | None


def owner(session: Session, serial: str, me: str, now: datetime) -> Owner | None:
    """The other host that lives and sees a device of this serial number; None: nobody but `me` may have it."""
    device, host = tables.Device, tables.Host
    found = session.execute(
        select(device.host, device.boot_id, host.lost_at, host.seen_at)
        .join(host, host.name == device.host)
        .where(device.serial == serial, device.host != me, device.connection.in_(_THERE))
    ).first()
    if found is None or found.lost_at is not None or is_silent(found.seen_at, now):
        return None
    return Owner(found.host, found.boot_id)


def of_host(session: Session, me: str, now: datetime) -> set[str]:
    """Serial numbers that other hosts, which live, see another device of."""
    host = tables.Host
    others = session.execute(select(host.info, host.seen_at).where(host.name != me, host.lost_at.is_(None)))
    return {str(one["serial"]) for info, seen_at in others if not is_silent(seen_at, now) for one in noted(info or {})}


def noted(info: dict[str, Any]) -> list[dict[str, str]]:
    """What a host's `info` says of them; a note that makes no sense is passed over."""
    found = [one for one in (info.get(KEY) or [])[:_MOST] if isinstance(one, dict)]
    return [
        {"serial": str(one["serial"])[:200], "address": str(one.get("address") or "")[:200]}
        for one in found
        if one.get("serial")
    ]
