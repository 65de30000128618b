"""Leases and reservations as their holders see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from farm.domain.leases import Lease
from farm.store import leases, tables
from farm.store.prepared import run

MAX_ROWS = 500
MAX_TAKEN = 20
_DEVICE = select(
    tables.Device.id, tables.Device.name, tables.Device.serial, tables.Device.host, tables.Device.virtual
).where(tables.Device.id == bindparam("device"))


@dataclass(frozen=True, slots=True)
class LeasedDevice:
    id: int
    name: str
    serial: str
    host: str
    virtual: bool


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease. `warned_at`: its holder was told that the end is near; `released_at`: cut off, `end_reason` says why."""

    id: int
    device: LeasedDevice
    holder: str
    user: str | None
    team: str | None
    token: int
    granted_at: datetime
    heartbeat_by: datetime
    ends_at: datetime
    extensions: int
    warned_at: datetime | None
    released_at: datetime | None
    end_reason: str | None
    preempted_by: str | None  # the operator who took it away
    run_id: int | None = None  # of the attempt that holds it


@dataclass(frozen=True, slots=True)
class ReservationView:
    """A wish and what became of it. `ready_at`: the device is prepared, its holder may begin."""

    id: int
    state: str  # queued, active, ended
    selector: str
    purpose: str | None
    created_by: str
    team: str
    created_at: datetime
    begins_at: datetime
    lasts_s: float
    wait_until: datetime | None
    wait_reason: str | None
    ready_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None
    lease: LeaseView | None  # while it is active


#: A reservation's own columns, and those of its lease: the fields of the values in their order.
_OWN = tuple(name for name in ReservationView.__slots__ if name != "lease")
_LEASE = tuple(Lease.__slots__)
_RESERVATION = (
    select(
        *(getattr(tables.Reservation, name) for name in _OWN),
        *(getattr(tables.Lease, name).label(f"lease_{name}") for name in (*_LEASE, "end_reason", "preempted_by")),
        *(getattr(tables.Device, name).label(f"device_{name}") for name in LeasedDevice.__slots__),
    )
    .outerjoin(tables.Lease, (tables.Lease.id == tables.Reservation.lease_id) & tables.Lease.ended_at.is_(None))
    .outerjoin(tables.Device, tables.Device.id == tables.Lease.device_id)
    .where(tables.Reservation.id == bindparam("ident"))
)


def lease_view(session: Session, lease: Lease) -> LeaseView:
    """A lease that was just granted or changed, with its device."""
    return _view(lease, LeasedDevice(*run(session, _DEVICE, {"device": lease.device_id}).one()))


def open_leases(session: Session, *, user: str | None = None) -> list[LeaseView]:
    """Every lease that has not ended, or those of a user, oldest first."""
    query = _leases().where(tables.Lease.ended_at.is_(None)).order_by(tables.Lease.id).limit(MAX_ROWS)
    if user is not None:
        query = query.where(tables.Lease.user == user)
    return [_joined(*found) for found in session.execute(query)]


def taken(session: Session, user: str, since: datetime) -> list[LeaseView]:
    """The user's leases that an operator took away since then, newest first."""
    lease = tables.Lease
    query = _leases().where(lease.user == user, lease.preempted_by.is_not(None), lease.released_at >= since)
    return [_joined(*found) for found in session.execute(query.order_by(lease.id.desc()).limit(MAX_TAKEN))]


def open_lease(session: Session, lease_id: int) -> LeaseView | None:
    """One lease that has not ended."""
    found = session.execute(_leases().where(tables.Lease.id == lease_id, tables.Lease.ended_at.is_(None))).first()
    return None if found is None else _joined(*found)


def reservation(session: Session, ident: int) -> ReservationView | None:
    """One reservation, with its lease while it is active."""
    row = run(session, _RESERVATION, {"ident": ident}).first()
    if row is None:
        return None
    lease = None
    if row.state == "active" and row.lease_id is not None:
        values = row[len(_OWN) :]
        held, (end_reason, preempted_by) = values[: len(_LEASE)], values[len(_LEASE) : len(_LEASE) + 2]
        lease = _view(Lease(*held), LeasedDevice(*values[-len(LeasedDevice.__slots__) :]), end_reason, preempted_by)
    own = dict(zip(_OWN, row, strict=False))
    return ReservationView(**own, lease=lease)


def reservations(session: Session, *, state: str | None = None, user: str | None = None) -> list[ReservationView]:
    """Reservations, newest first; those that have not ended when no state is named."""
    row = tables.Reservation
    query = select(row).order_by(row.id.desc()).limit(MAX_ROWS)
    query = query.where(row.state == state) if state else query.where(row.state != "ended")
    if user is not None:
        query = query.where(row.created_by == user)
    rows = session.scalars(query).all()
    ids = [found.lease_id for found in rows if found.state == "active" and found.lease_id is not None]
    held = {found[0].id: _joined(*found) for found in session.execute(_leases().where(tables.Lease.id.in_(ids)))}
    return [_reservation(found, held.get(found.lease_id or 0)) for found in rows]


def _leases() -> Select[tables.Lease, tables.Device, int]:
    lease, attempt, job = tables.Lease, tables.Attempt, tables.Job
    return (
        select(lease, tables.Device, job.run_id)
        .join(tables.Device, tables.Device.id == lease.device_id)
        .outerjoin(attempt, attempt.id == lease.attempt_id)
        .outerjoin(job, job.id == attempt.job_id)
    )


def _joined(row: tables.Lease, d: tables.Device, run_id: int | None) -> LeaseView:
    device = LeasedDevice(d.id, d.name, d.serial, d.host, d.virtual)
    return replace(_view(leases.as_lease(row), device, row.end_reason, row.preempted_by), run_id=run_id)


def _view(
    lease: Lease, device: LeasedDevice, end_reason: str | None = None, preempted_by: str | None = None
) -> LeaseView:
    return LeaseView(
        id=lease.id,
        device=device,
        holder=lease.holder,
        user=lease.user,
        team=lease.team,
        token=lease.token,
        granted_at=lease.granted_at,
        heartbeat_by=lease.heartbeat_by,
        ends_at=lease.ends_at,
        extensions=lease.extensions,
        warned_at=lease.warned_at,
        released_at=lease.released_at,
        end_reason=end_reason,
        preempted_by=preempted_by,
    )


def _reservation(row: tables.Reservation, lease: LeaseView | None) -> ReservationView:
    return ReservationView(
        id=row.id,
        state=row.state,
        selector=row.selector,
        purpose=row.purpose,
        created_by=row.created_by,
        team=row.team,
        created_at=row.created_at,
        begins_at=row.begins_at,
        lasts_s=row.lasts_s,
        wait_until=row.wait_until,
        wait_reason=row.wait_reason,
        ready_at=row.ready_at,
        ended_at=row.ended_at,
        end_reason=row.end_reason,
        lease=lease,
    )
