"""Device rows: read as facts, and the few ways in which they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session, object_session

from farm.domain import readiness
from farm.domain.devices import Connection, DeviceFacts, Health, Readiness
from farm.domain.health import Standing
from farm.domain.leases import held_by
from farm.store import tables
from farm.store.base import Base
from farm.store.bus import touch
from farm.store.hosts import alive_at

WordT = TypeVar("WordT", bound=StrEnum)

#: Longest advice and longest tail of a health log that a row keeps, characters.
_MAX_WORDS = 500
_MAX_TAIL = 4000


def of_fleet() -> ColumnElement[bool]:
    """Rows of the fleet: listed, or seen some time. The others are kept only because something refers to them."""
    d = tables.Device
    return or_(d.listed, d.seen_at.is_not(None), d.connection != Connection.GONE.value)


def forget(session: Session, device_id: int) -> bool:
    """Delete a device's row; False when something refers to it (work, notes, history), and then it stays."""
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if (
                any(key.column is tables.Device.__table__.c.id for key in column.foreign_keys)
                and session.execute(select(column).where(column == device_id).limit(1)).first()
            ):
                return False
    session.delete(session.get_one(tables.Device, device_id))
    session.flush()
    return True


def facts(session: Session, *, host: str | None = None) -> list[DeviceFacts]:
    """Every device that the farm knows, with its open lease, in one query; those of drained hosts are left out."""
    query = (
        select(tables.Device, tables.Lease, tables.Job.run_id, tables.Host)
        .join(tables.Host, tables.Host.name == tables.Device.host)
        .outerjoin(tables.Lease, (tables.Lease.device_id == tables.Device.id) & tables.Lease.ended_at.is_(None))
        .outerjoin(tables.Attempt, tables.Attempt.id == tables.Lease.attempt_id)
        .outerjoin(tables.Job, tables.Job.id == tables.Attempt.job_id)
        .where(tables.Host.drained.is_(False), of_fleet())
        .order_by(tables.Device.id)
    )
    if host is not None:
        query = query.where(tables.Device.host == host)
    return [fact(*row) for row in session.execute(query)]


def fact(
    row: tables.Device, lease: tables.Lease | None, run_id: int | None = None, host: tables.Host | None = None
) -> DeviceFacts:
    """One row as planner, selectors and pages see it; an unknown word in a column reads as the worse state.

    `run_id`: of the attempt that has the lease. `host`: the device's; left out where only devices were asked for whose
    host is well.

    A row that a newer version wrote, or a hand, must not stop the planning of all the others.
    """
    alive = None if host is None else alive_at(object_session(host), host.name)
    there = row.connection != Connection.GONE.value
    return DeviceFacts(
        id=row.id,
        serial=row.serial,
        name=row.name,
        host=row.host,
        virtual=row.virtual,
        listed=row.listed,
        type=row.type,
        pool=row.pool,
        ring=row.ring,
        labels={str(k): str(v) for k, v in (row.labels or {}).items()},
        connection=_word(Connection, row.connection, Connection.OFFLINE),
        seen_at=alive if alive is not None and there else row.seen_at,
        health=_word(Health, row.health, Health.SUSPECT),
        health_reason=row.health_reason,
        health_until=row.health_until,
        readiness=Readiness(
            at=row.readiness_at,
            temperature_c=row.temperature_c,
            battery_pct=row.battery_pct,
            has_battery=row.has_battery,
            boot_completed=row.boot_completed,
            boot_id=row.boot_id,
            hot_since=row.hot_since,
            low_since=row.low_since,
            free_bytes=row.free_bytes,
            clock_skew_s=row.clock_skew_s,
        ),
        lease_holder=None if lease is None else lease.holder,
        held_by=None if lease is None else held_by(lease.holder, lease.user, lease.team, run_id),
        lease_released=lease is not None and lease.released_at is not None,
        infra_errors=row.infra_errors,
        last_bundle=row.last_bundle,
        host_lost_at=None if host is None or alive is not None else host.lost_at,
        host_unready=None if host is None else host.unready,
    )


def _word(kind: type[WordT], value: str, otherwise: WordT) -> WordT:
    try:
        return kind(value)
    except ValueError:
        return otherwise


def event(session: Session, device_id: int, at: datetime, kind: str, detail: Mapping[str, Any]) -> None:
    """Append to the device's history."""
    session.add(tables.DeviceEvent(device_id=device_id, at=at, kind=kind, detail=dict(detail)))


def note_temperature(session: Session, row: tables.Device, celsius: float | None, now: datetime) -> None:
    """A reading: the device's newest one and a point of its curve. None ("not measured") makes no point."""
    row.temperature_c, row.readiness_at = celsius, now
    was_held = readiness.is_held_hot(row.hot_since, now)
    row.hot_since = readiness.hot_since(celsius, row.has_battery, row.hot_since, now)
    if row.hot_since is None and was_held:
        event(session, row.id, now, "cooled", {"celsius": celsius})
    if celsius is not None:
        event(session, row.id, now, "temperature", {"celsius": round(celsius, 2)})


def note_battery(
    session: Session, row: tables.Device, pct: int | None, has_battery: bool | None, now: datetime
) -> None:
    """A reading of the charge; that it fell too low, or is enough again, is history."""
    was_low = row.low_since is not None
    row.battery_pct, row.has_battery = pct, has_battery
    row.low_since = readiness.low_since(pct, has_battery, row.low_since, now)
    if (row.low_since is not None) is not was_low:
        event(session, row.id, now, "charged" if was_low else "battery-low", {"percent": pct})


def set_health(
    session: Session,
    device_id: int,
    health: Health,
    reason: str | None,
    by: str,
    now: datetime,
    until: timedelta | None = None,
    *,
    action: str | None = None,
    log: Sequence[str] = (),
) -> bool:
    """Change a device's health: why, by whom, until when, what helps, and the tail of what led to it.

    False when it was so already.
    """
    row = session.get_one(tables.Device, device_id)
    if row.health == health.value and row.health_reason == reason and until is None:
        return False
    row.health, row.health_reason, row.health_by, row.health_at = health.value, reason, by, now
    row.health_until = None if until is None else now + until
    row.health_action = None if action is None else action[:_MAX_WORDS]
    row.health_log = "\n".join(log)[-_MAX_TAIL:] or None
    detail = {"health": health.value, "reason": reason, "by": by}
    if row.health_until is not None:
        detail["until"] = row.health_until.isoformat()
    event(session, device_id, now, "health", detail)
    touch(session, "device", device_id, at=now, device_id=device_id)
    return True


def put(
    session: Session, row: tables.Device, standing: Standing, by: str, now: datetime, log: Sequence[str] = ()
) -> None:
    """What the rules of health decided."""
    row.strikes = standing.strikes
    set_health(
        session, row.id, standing.health, standing.reason, by, now, standing.rest, action=standing.action, log=log
    )


def set_connection(
    session: Session, row: tables.Device, connection: Connection, address: str | None, now: datetime
) -> bool:
    """Where adb sees the device and how; False when that is nothing new."""
    if row.connection == connection.value and (address is None or row.address == address):
        return False
    if row.connection != connection.value:
        row.connection, row.connection_at = connection.value, now
        event(session, row.id, now, "connection", {"connection": connection.value, "address": address or row.address})
    row.address = address or row.address
    touch(session, "device", row.id, at=now, device_id=row.id)
    return True
