"""Holds as pages and the API show them: each with what still runs under it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.holds import Hold
from farm.store import holds, tables


@dataclass(frozen=True, slots=True)
class Standing:
    """A hold in force. `busy`: the devices under it that somebody still holds, with their holders."""

    hold: Hold
    words: str
    devices: int
    busy: tuple[str, ...]


def standing(session: Session, now: datetime) -> list[Standing]:
    """Every hold in force, the oldest first. Two queries."""
    known = _devices(session)
    return [_standing(hold, known) for hold in holds.in_force(session, now)]


def standing_one(session: Session, hold: Hold) -> Standing:
    return _standing(hold, _devices(session))


_Known = list[tuple[str, str, str, str | None, str | None]]


def _devices(session: Session) -> _Known:
    device, lease = tables.Device, tables.Lease
    query = (
        select(device.name, device.serial, device.host, device.pool, lease.holder)
        .outerjoin(lease, (lease.device_id == device.id) & lease.ended_at.is_(None))
        .order_by(device.id)
    )
    return [(name, serial, host, pool, holder) for name, serial, host, pool, holder in session.execute(query)]


def _standing(hold: Hold, known: _Known) -> Standing:
    under = [(name, holder) for name, serial, host, pool, holder in known if hold.names(serial, host, pool)]
    busy = tuple(f"{name} ({holder})" for name, holder in under if holder is not None)
    return Standing(hold, hold.words(), len(under), busy)
