"""Granting, renewing and ending leases: the only rows that give a right to touch a device.

A grant is an INSERT; the unique partial index on open leases is the lock, so that two planners in any two threads or
processes cannot both succeed. The token grows on the device's own row in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from farm.domain.leases import HEARTBEAT, Lease, LeaseVerdict
from farm.store import tables
from farm.store.bus import touch


class AlreadyHeld(Exception):
    """The device has an open lease."""

    def __init__(self, device_id: int, holder: str | None = None) -> None:
        self.device_id = device_id
        self.holder = holder
        super().__init__(f"device {device_id} is held by {holder or 'somebody else'}")


def grant(
    session: Session,
    device_id: int,
    holder: str,
    attempt_id: int | None,
    now: datetime,
    hard_end: datetime,
) -> Lease:
    """Take the device for `holder`. Raises AlreadyHeld, leaving the session usable."""
    token = session.execute(
        update(tables.Device)
        .where(tables.Device.id == device_id)
        .values(last_token=tables.Device.last_token + 1)
        .returning(tables.Device.last_token)
    ).scalar_one()
    row = tables.Lease(
        device_id=device_id,
        holder=holder,
        attempt_id=attempt_id,
        token=token,
        granted_at=now,
        heartbeat_by=now + HEARTBEAT,
        ends_at=hard_end,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        held = session.scalar(
            select(tables.Lease.holder).where(tables.Lease.device_id == device_id, tables.Lease.ended_at.is_(None))
        )
        raise AlreadyHeld(device_id, held) from None
    session.add(
        tables.DeviceEvent(device_id=device_id, at=now, kind="leased", detail={"holder": holder, "token": token})
    )
    touch(session, "device", device_id, at=now, device_id=device_id)
    return _lease(row)


def renew(session: Session, lease_ids: Collection[int], now: datetime) -> list[int]:
    """Move the heartbeat deadline of every unreleased lease named; returns the ids that still stand."""
    standing = list(
        session.scalars(
            select(tables.Lease.id).where(
                tables.Lease.id.in_(lease_ids),
                tables.Lease.released_at.is_(None),
                tables.Lease.ended_at.is_(None),
                tables.Lease.ends_at > now,
            )
        )
    )
    if standing:
        session.execute(update(tables.Lease).where(tables.Lease.id.in_(standing)).values(heartbeat_by=now + HEARTBEAT))
    return standing


def release(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """Cut the holder off; the device stays taken until `end`. False when it was released before."""
    return _close(session, lease_id, now, reason, released_at=now)


def end(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """The device is clean and verified, or in quarantine: free it. False when it had ended before."""
    release(session, lease_id, now, reason)
    return _close(session, lease_id, now, reason, ended_at=now)


def _close(session: Session, lease_id: int, now: datetime, reason: str, **column: datetime) -> bool:
    name = next(iter(column))
    closed = session.execute(
        update(tables.Lease)
        .where(tables.Lease.id == lease_id, getattr(tables.Lease, name).is_(None))
        .values(**column, end_reason=reason[:200])
        .returning(tables.Lease.device_id, tables.Lease.holder)
    ).first()
    if closed is None:
        return False
    device_id, holder = closed
    kind = "freed" if name == "ended_at" else "released"
    session.add(
        tables.DeviceEvent(device_id=device_id, at=now, kind=kind, detail={"holder": holder, "reason": reason[:200]})
    )
    touch(session, "device", device_id, at=now, device_id=device_id)
    return True


def expire(session: Session, now: datetime, *, trust_heartbeat: bool) -> list[tuple[Lease, LeaseVerdict]]:
    """Release every lease that no longer stands and say why; cleaning and ending follow elsewhere.

    `trust_heartbeat` is False for one interval after a start of the server: nobody could renew while it was away.
    """
    over = [tables.Lease.ends_at <= now]
    if trust_heartbeat:
        over.append(tables.Lease.heartbeat_by <= now)
    rows = session.scalars(
        select(tables.Lease).where(tables.Lease.released_at.is_(None), tables.Lease.ended_at.is_(None), or_(*over))
    ).all()
    expired: list[tuple[Lease, LeaseVerdict]] = []
    for row in rows:
        lease = _lease(row)
        verdict = lease.verdict(now, trust_heartbeat=trust_heartbeat)
        words = "its hard end passed" if verdict is LeaseVerdict.OVER else "its holder was silent for too long"
        release(session, row.id, now, words)
        expired.append((lease, verdict))
    return expired


def any_over(session: Session, now: datetime) -> bool:
    """Whether `expire` could have anything to do: a look that takes no write lock."""
    query = select(tables.Lease.id).where(
        tables.Lease.released_at.is_(None),
        tables.Lease.ended_at.is_(None),
        or_(tables.Lease.ends_at <= now, tables.Lease.heartbeat_by <= now),
    )
    return session.scalar(query.limit(1)) is not None


def still_mine(session: Session, attempt_id: int, token: int) -> bool:
    """Whether the attempt still holds its device under this token, unreleased."""
    lease = of_attempt(session, attempt_id, token)
    return lease is not None and lease.released_at is None


def of_attempt(session: Session, attempt_id: int, token: int) -> Lease | None:
    """The attempt's open lease (released or not) under this token; None when it has ended."""
    row = session.scalar(
        select(tables.Lease).where(
            tables.Lease.attempt_id == attempt_id, tables.Lease.token == token, tables.Lease.ended_at.is_(None)
        )
    )
    return None if row is None else _lease(row)


def open_leases(session: Session, host: str | None = None) -> list[Lease]:
    """Every open lease, of the devices of `host` if named; released ones too (their devices are not free yet)."""
    query = select(tables.Lease).where(tables.Lease.ended_at.is_(None))
    if host is not None:
        query = query.join(tables.Device, tables.Device.id == tables.Lease.device_id).where(tables.Device.host == host)
    return [_lease(row) for row in session.scalars(query.order_by(tables.Lease.id))]


def _lease(row: tables.Lease) -> Lease:
    return Lease(
        row.id, row.device_id, row.holder, row.token, row.granted_at, row.heartbeat_by, row.ends_at, row.released_at
    )
