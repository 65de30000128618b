"""Granting, renewing and ending leases: the only rows that give a right to touch a device.

A grant is an INSERT; the unique partial index on open leases is the lock, so that two planners in any two threads or
processes cannot both succeed. The token grows on the device's own row in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import and_, bindparam, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from farm.domain.leases import HEARTBEAT, RESERVATION, WARN_BEFORE, Lease, LeaseVerdict
from farm.store import tables
from farm.store.appended import append
from farm.store.bus import touch
from farm.store.prepared import run

_NEXT_TOKEN = (
    update(tables.Device)
    .where(tables.Device.id == bindparam("device"))
    .values(last_token=tables.Device.last_token + 1)
    .returning(tables.Device.last_token)
)
_GRANT = {
    "sqlite": sqlite.insert(tables.Lease).on_conflict_do_nothing().returning(tables.Lease.id),
    "postgresql": postgresql.insert(tables.Lease).on_conflict_do_nothing().returning(tables.Lease.id),
}
_IS_OPEN = tables.Lease.ended_at.is_(None)
_IS_IT = tables.Lease.id == bindparam("lease")
_HOLDER = select(tables.Lease.holder).where(tables.Lease.device_id == bindparam("device"), _IS_OPEN)
_OPEN = select(tables.Lease.device_id, tables.Lease.holder, tables.Lease.granted_at, tables.Lease.released_at).where(
    _IS_IT, _IS_OPEN
)
_OF_ID = select(
    *(getattr(tables.Lease, name) for name in Lease.__slots__)  # the value's fields are the row's columns
).where(_IS_IT, _IS_OPEN)
_RELEASE = (
    update(tables.Lease)
    .where(_IS_IT, tables.Lease.released_at.is_(None))
    .values(released_at=bindparam("now"), end_reason=bindparam("reason"), preempted_by=bindparam("by"))
    .returning(tables.Lease.device_id, tables.Lease.holder)
)
_END_RESERVATION = (
    update(tables.Reservation)
    .where(tables.Reservation.lease_id == bindparam("lease"), tables.Reservation.ended_at.is_(None))
    .values(state="ended", ended_at=bindparam("now"), end_reason=bindparam("reason"))
)
_END = update(tables.Lease).where(_IS_IT, _IS_OPEN).values(ended_at=bindparam("now")).returning(tables.Lease.id)
_WEAR = (
    update(tables.Device)
    .where(tables.Device.id == bindparam("device"))
    .values(used_s=tables.Device.used_s + bindparam("used"))
)
_EVENT = insert(tables.DeviceEvent)


class AlreadyHeld(Exception):
    """The device has an open lease."""

    def __init__(self, device_id: int, holder: str | None = None) -> None:
        self.device_id = device_id
        self.holder = holder
        super().__init__(f"device {device_id} is held by {holder or 'somebody else'}")


class NoSuchLease(LookupError):
    """There is no such lease, or it is over."""

    def __init__(self, lease_id: int) -> None:
        super().__init__(f"there is no lease {lease_id}, or it is over")


def grant(
    session: Session,
    device_id: int,
    holder: str,
    attempt_id: int | None,
    now: datetime,
    hard_end: datetime,
    *,
    team: str | None = None,
    user: str | None = None,
) -> Lease:
    """Take the device for `holder`. Raises AlreadyHeld, leaving the session usable."""
    token = run(session, _NEXT_TOKEN, {"device": device_id}).scalar_one()
    values = {
        "device_id": device_id,
        "holder": holder,
        "attempt_id": attempt_id,
        "token": token,
        "granted_at": now,
        "heartbeat_by": now + HEARTBEAT,
        "ends_at": hard_end,
        "team": team,
        "user": user,
    }
    # Two at the same moment: the unique index lets one row in, the other one's INSERT does nothing and says so.
    lease_id = run(session, _GRANT[session.get_bind().dialect.name], values).scalar_one_or_none()
    if lease_id is None:
        raise AlreadyHeld(device_id, run(session, _HOLDER, {"device": device_id}).scalar_one_or_none())
    _event(session, device_id, now, "leased", {"holder": holder, "token": token})
    touch(session, "device", device_id, at=now, device_id=device_id)
    return Lease(lease_id, device_id, holder, token, now, now + HEARTBEAT, hard_end, None, team, user)


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


def extend(session: Session, lease_id: int, by: timedelta, now: datetime) -> Lease:
    """Move the end of a reservation's lease. Raises CannotExtend; NoSuchLease when it has ended."""
    lease = of_id(session, lease_id)
    if lease is None:
        raise NoSuchLease(lease_id)
    end_at = lease.extended(by, now)
    session.execute(
        update(tables.Lease)
        .where(tables.Lease.id == lease_id)
        .values(ends_at=end_at, extensions=tables.Lease.extensions + 1, warned_at=None)
    )
    until = end_at.isoformat(timespec="seconds")
    _event(session, lease.device_id, now, "extended", {"holder": lease.holder, "until": until})
    _announce(session, lease.device_id, lease.holder, now)
    return replace(lease, ends_at=end_at, extensions=lease.extensions + 1, warned_at=None)


def preempt(session: Session, lease_id: int, by: str, reason: str, now: datetime) -> Lease:
    """An operator takes the device away; the holder sees who and why. Raises NoSuchLease when it was released before.

    An attempt that loses its lease so ends as the farm's own trouble, and its job is tried again at its old place.
    """
    lease = of_id(session, lease_id)
    words = f"preempted by {by} because {reason}"
    if lease is None or not _close(session, lease_id, now, words, by):
        raise NoSuchLease(lease_id)
    return replace(lease, released_at=now)


def release(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """Cut the holder off; the device stays taken until `end`. False when it was released before."""
    return _close(session, lease_id, now, reason)


def end(session: Session, lease_id: int, now: datetime, reason: str) -> int | None:
    """The device is clean and verified, or in quarantine: free it. Its id; None when the lease had ended before.

    Who waits for the device is served by `farm.store.handover.free`, which calls this.
    """
    found = run(session, _OPEN, {"lease": lease_id}).first()
    if found is None:
        return None
    device_id, holder, granted_at, released_at = found
    # The device's row first, as a grant does: whoever takes the two locks the other way round may wait for ever.
    used_s = max(0.0, (now - granted_at).total_seconds())
    run(session, _WEAR, {"device": device_id, "used": used_s})
    if released_at is None:
        release(session, lease_id, now, reason)
    if run(session, _END, {"lease": lease_id, "now": now}).first() is None:
        run(session, _WEAR, {"device": device_id, "used": -used_s})  # somebody else ended it while we waited
        return None
    _event(session, device_id, now, "freed", {"holder": holder, "reason": reason[:200]})
    touch(session, "device", device_id, at=now, device_id=device_id)
    return int(device_id)


def _close(session: Session, lease_id: int, now: datetime, reason: str, by: str | None = None) -> bool:
    values = {"lease": lease_id, "now": now, "reason": reason[:200], "by": by}
    closed = run(session, _RELEASE, values).first()
    if closed is None:
        return False
    device_id, holder = closed
    _event(session, device_id, now, "released", {"holder": holder, "reason": reason[:200]})
    if holder.startswith(RESERVATION):  # a reservation is over with its lease, whatever ended that
        run(session, _END_RESERVATION, {"lease": lease_id, "now": now, "reason": reason[:200]})
    _announce(session, device_id, holder, now)
    return True


def _announce(session: Session, device_id: int, holder: str, now: datetime) -> None:
    """The device's tile changes with its lease, and so does the page of who holds it."""
    touch(session, "device", device_id, at=now, device_id=device_id)
    if holder.startswith(RESERVATION):
        touch(session, "reservation", holder[len(RESERVATION) :], at=now, device_id=device_id)


def _event(session: Session, device_id: int, at: datetime, kind: str, detail: dict[str, object]) -> None:
    """A line of the device's history."""
    append(session, _EVENT, {"device_id": device_id, "at": at, "kind": kind, "detail": detail})


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
        lease = as_lease(row)
        verdict = lease.verdict(now, trust_heartbeat=trust_heartbeat)
        words = "its hard end passed" if verdict is LeaseVerdict.OVER else "its holder was silent for too long"
        release(session, row.id, now, words)
        expired.append((lease, verdict))
    return expired


def warn(session: Session, now: datetime) -> list[Lease]:
    """Note of every reservation's lease whose end is near that its holder is told now; each is told once per end."""
    rows = session.scalars(
        select(tables.Lease).where(
            tables.Lease.released_at.is_(None),
            tables.Lease.ended_at.is_(None),
            tables.Lease.warned_at.is_(None),
            tables.Lease.ends_at <= now + WARN_BEFORE,
            tables.Lease.holder.startswith(RESERVATION),
        )
    ).all()
    near = [(row, lease) for row in rows if now >= (lease := as_lease(row)).warn_at]
    for row, lease in near:
        row.warned_at = now
        left_s = round((lease.ends_at - now).total_seconds())
        _event(session, lease.device_id, now, "lease-ends-soon", {"holder": lease.holder, "left_s": left_s})
        _announce(session, lease.device_id, lease.holder, now)
    return [lease for _, lease in near]


def any_over(session: Session, now: datetime) -> bool:
    """Whether `expire` or `warn` could have anything to do: a look that takes no write lock."""
    lease = tables.Lease
    ends_soon = and_(
        lease.ends_at <= now + WARN_BEFORE, lease.warned_at.is_(None), lease.holder.startswith(RESERVATION)
    )
    query = select(lease.granted_at, lease.ends_at, lease.heartbeat_by).where(
        lease.released_at.is_(None),
        lease.ended_at.is_(None),
        or_(lease.ends_at <= now, lease.heartbeat_by <= now, ends_soon),
    )
    return any(
        now >= min(ends_at - min(WARN_BEFORE, (ends_at - granted_at) / 4), heartbeat_by)
        for granted_at, ends_at, heartbeat_by in session.execute(query)
    )


def of_id(session: Session, lease_id: int) -> Lease | None:
    """The open lease of that number; None when there is none or it has ended."""
    row = run(session, _OF_ID, {"lease": lease_id}).first()
    return None if row is None else Lease(*row)


def why_over(session: Session, lease_id: int) -> tuple[str | None, str | None] | None:
    """(why it ended, the operator who took it if one did) of a lease that is over; None: it stands, or never was."""
    row = session.execute(
        select(tables.Lease.end_reason, tables.Lease.preempted_by).where(_IS_IT, tables.Lease.released_at.is_not(None)),
        {"lease": lease_id},
    ).first()
    return None if row is None else (row.end_reason, row.preempted_by)


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
    return None if row is None else as_lease(row)


def open_leases(session: Session, host: str | None = None) -> list[Lease]:
    """Every open lease, of the devices of `host` if named; released ones too (their devices are not free yet)."""
    query = select(tables.Lease).where(tables.Lease.ended_at.is_(None))
    if host is not None:
        query = query.join(tables.Device, tables.Device.id == tables.Lease.device_id).where(tables.Device.host == host)
    return [as_lease(row) for row in session.scalars(query.order_by(tables.Lease.id))]


def as_lease(row: tables.Lease) -> Lease:
    """The row as a value."""
    return Lease(
        row.id, row.device_id, row.holder, row.token, row.granted_at, row.heartbeat_by, row.ends_at, row.released_at,
        row.team, row.user, row.extensions, row.warned_at,
    )  # fmt: skip
