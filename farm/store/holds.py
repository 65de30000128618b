"""Holds: placed and lifted by operators, read by the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from farm.domain.holds import SCOPES, Hold
from farm.domain.names import did_you_mean
from farm.store import naming, tables
from farm.store.bus import touch


class UnknownTarget(LookupError):
    """There is no such host, device or pool to hold."""


def target(session: Session, scope: str, name: str) -> str:
    """What a hold on `name` refers to: a device by its serial, whatever it was called.

    Raises UnknownTarget, AmbiguousName.
    """
    if scope == "farm":
        return ""
    if scope not in SCOPES:
        raise UnknownTarget(f"{scope!r} is none of {', '.join(SCOPES)}")
    device = tables.Device
    if scope == "device":
        ident = naming.device_id(session, name)
        if ident is not None:
            return session.get_one(device, ident).serial
        known = set(session.scalars(select(device.name)))
    elif scope == "host":
        known = set(session.scalars(select(tables.Host.name)))
    else:
        known = {pool for pool in session.scalars(select(device.pool).distinct()) if pool}
    if name in known:
        return name
    raise UnknownTarget(f"there is no {scope} {name!r}; {did_you_mean(name, known) or '`farm devices` lists them'}")


def place(
    session: Session, scope: str, ref: str, reason: str, by: str, now: datetime, until: datetime | None = None
) -> Hold:
    """No new work there from now on. A hold of the same reason and author that is in force already stays the one."""
    for hold in in_force(session, now):
        if (hold.scope, hold.ref, hold.reason, hold.by, hold.until) == (scope, ref, reason, by, until):
            return hold
    row = tables.Hold(scope=scope, ref=ref, reason=reason, by=by, at=now, until=until)
    session.add(row)
    session.flush()
    touch(session, "hold", row.id, at=now)
    return _hold(row, _called(session, [row]))


def lift(session: Session, scope: str, ref: str, by: str, now: datetime) -> list[Hold]:
    """End every hold on exactly this; those that ended."""
    rows = session.scalars(_standing(now).where(tables.Hold.scope == scope, tables.Hold.ref == ref)).all()
    for row in rows:
        row.lifted_at, row.lifted_by = now, by
        touch(session, "hold", row.id, at=now)
    called = _called(session, rows)
    return [_hold(row, called) for row in rows]


def in_force(session: Session, now: datetime) -> list[Hold]:
    """Every hold that stands, oldest first."""
    rows = session.scalars(_standing(now).order_by(tables.Hold.at, tables.Hold.id)).all()
    called = _called(session, rows)
    return [_hold(row, called) for row in rows]


def _standing(now: datetime) -> Select[tables.Hold]:
    hold = tables.Hold
    return select(hold).where(hold.lifted_at.is_(None), or_(hold.until.is_(None), hold.until > now))


def _called(session: Session, rows: Iterable[tables.Hold]) -> dict[str, str]:
    """The names of the devices that are held, by serial number."""
    serials = sorted({row.ref for row in rows if row.scope == "device"})
    device = tables.Device
    if not serials:
        return {}
    found = session.execute(select(device.serial, device.name).where(device.serial.in_(serials)))
    return {row.serial: row.name for row in found}


def _hold(row: tables.Hold, called: Mapping[str, str]) -> Hold:
    name = called.get(row.ref) if row.scope == "device" else None
    return Hold(row.id, row.scope, row.ref, row.reason, row.by, row.at, row.until, name)
