"""What people do about a device by hand: quarantine, maintenance, release, a look on request, notes on its page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.devices import Health
from farm.store import devices, tables
from farm.store.bus import touch

#: Newest notes that a page shows.
MAX_NOTES = 50


class CannotChange(Exception):
    """What was asked for makes no sense for the device as it is; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class NoteRow:
    """What a person wrote."""

    id: int
    at: datetime
    by: str
    text: str


def add(session: Session, device_id: int, by: str, text: str, now: datetime) -> NoteRow:
    row = tables.DeviceNote(device_id=device_id, at=now, by=by, text=text)
    session.add(row)
    session.flush()
    touch(session, "device", device_id, at=now, device_id=device_id)
    return NoteRow(row.id, row.at, row.by, row.text)


def of_device(session: Session, device_id: int) -> tuple[NoteRow, ...]:
    """Newest first."""
    n = tables.DeviceNote
    rows = session.scalars(
        select(n).where(n.device_id == device_id).order_by(n.at.desc(), n.id.desc()).limit(MAX_NOTES)
    )
    return tuple(NoteRow(row.id, row.at, row.by, row.text) for row in rows)


def health_words(row: tables.Device) -> str:
    """`bad: it runs hot`: how the device is now, for the audit log."""
    return row.health + (f": {row.health_reason}" if row.health_reason else "")


def quarantine(
    session: Session, row: tables.Device, reason: str, by: str, now: datetime, lasts: timedelta | None = None
) -> None:
    """No new work until then, or until a person says so. What runs on it goes on."""
    devices.set_health(session, row.id, Health.BAD, reason, by, now, lasts)


def maintenance(session: Session, row: tables.Device, reason: str, by: str, now: datetime) -> None:
    """In somebody's hands: no new work, no recovery, no look changes it."""
    devices.set_health(session, row.id, Health.MAINTENANCE, reason, by, now)


def release(session: Session, row: tables.Device, by: str, now: datetime) -> None:
    """Back into service: looked at first, its strikes forgotten. Raises CannotChange when it is in service."""
    if row.health not in (Health.BAD.value, Health.MAINTENANCE.value):
        raise CannotChange(f"{row.name} is neither in quarantine nor in maintenance: its health is {row.health}")
    row.strikes = 0
    devices.set_health(session, row.id, Health.SUSPECT, "released; checked before its next use", by, now)


def ask_for_look(session: Session, row: tables.Device, by: str, now: datetime) -> None:
    """Have its host look at it now; a quarantine that has an end is over when the look is good.

    Raises CannotChange where a person's word stands, or where adb does not list the device.
    """
    if row.health == Health.MAINTENANCE.value or (row.health == Health.BAD.value and row.health_until is None):
        raise CannotChange(
            f"{row.name} was taken out by {row.health_by or 'somebody'} ({row.health_reason or 'no reason given'}): "
            f"release it, then it is checked"
        )
    if row.connection != "device":
        raise CannotChange(f"adb says {row.connection!r} of {row.name}: there is nobody to look at")
    if row.health == Health.BAD.value:
        row.health_until = now
        touch(session, "device", row.id, at=now, device_id=row.id)
    else:
        devices.set_health(session, row.id, Health.SUSPECT, f"a check was asked for by {by}", by, now)
