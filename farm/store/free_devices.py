"""Devices that may be granted at this moment, the best first, read in pieces: most wishes are served by the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Executable, bindparam, exists, func, select
from sqlalchemy.orm import Session

from farm.domain.devices import STALE_AFTER, Availability, Connection, DeviceFacts, Health, availability
from farm.store import devices, tables
from farm.store.prepared import run

#: Read at first; most wishes are served by the first. What follows is read in pieces that grow.
_PAGE = 2
_UNMEASURED_C = 30.0  # a temperature that was not measured: neither hot nor cold

_READY = (
    select(*tables.Device.__table__.columns)
    .join(tables.Host, tables.Host.name == tables.Device.host)
    .outerjoin(tables.Lease, (tables.Lease.device_id == tables.Device.id) & tables.Lease.ended_at.is_(None))
    .where(
        tables.Lease.id.is_(None),
        tables.Host.drained.is_(False),
        tables.Host.lost_at.is_(None),
        tables.Host.unready.is_(None),
        tables.Device.connection == Connection.ONLINE.value,
        tables.Device.health == Health.GOOD.value,
        tables.Device.seen_at >= bindparam("fresh"),
    )
    .order_by(
        func.coalesce(tables.Device.temperature_c, _UNMEASURED_C),
        tables.Device.infra_errors,
        tables.Device.used_s,
        tables.Device.id,
    )
    .offset(bindparam("offset"))
    .limit(bindparam("size"))
)
_READY_ONE = _READY.where(tables.Device.id == bindparam("device"))

#: The fleet of hosts that take work, held devices too.
_KNOWN = (
    select(*tables.Device.__table__.columns)
    .join(tables.Host, tables.Host.name == tables.Device.host)
    .where(tables.Host.drained.is_(False), devices.of_fleet())
    .order_by(tables.Device.id)
    .offset(bindparam("offset"))
    .limit(bindparam("size"))
)

_LOCK = (
    select(tables.Device.id)
    .where(
        tables.Device.id == bindparam("device"),
        ~exists().where(tables.Lease.device_id == tables.Device.id, tables.Lease.ended_at.is_(None)),
    )
    .with_for_update(skip_locked=True, key_share=True, of=tables.Device)
)


def ready(session: Session, device_id: int | None, now: datetime) -> Iterator[DeviceFacts]:
    """Devices that may be granted now: the coolest first, then those with the fewest errors, then the least worn."""
    statement = _READY if device_id is None else _READY_ONE
    found = _paged(session, statement, {"device": device_id, "fresh": now - STALE_AFTER})
    return (fact for fact in found if availability(fact, now)[0] is Availability.READY)


def any_known(session: Session, matches: Callable[[DeviceFacts], bool]) -> bool:
    """Whether the farm has a device like that, free or not."""
    return any(map(matches, _paged(session, _KNOWN, {})))


def _paged(session: Session, statement: Executable, which: Mapping[str, Any]) -> Iterator[DeviceFacts]:
    offset, size = 0, _PAGE
    while True:
        rows = run(session, statement, {**which, "offset": offset, "size": size}).all()
        for row in rows:
            yield devices.fact(cast(tables.Device, row), None)  # it has the columns that are asked for
        if len(rows) < size:
            return
        offset, size = offset + size, size * 8


def lock(session: Session, device_id: int) -> bool:
    """Have the device's row until the transaction ends; False when another transaction has it, or a lease is open.

    Never waits: who held one device while waiting for the next could wait for ever. On SQLite a write transaction is
    alone, and what it has read stands.
    """
    if session.get_bind().dialect.name == "sqlite":
        return True
    return run(session, _LOCK, {"device": device_id}).first() is not None
