"""Reservations: wishes of people and programs for a device, and the leases that they become.

A wish is a row. When nothing that waits could want the device, `grant_now` makes it a lease in the caller's own
transaction; otherwise it waits among the debug jobs (`waiting`) and the planner grants it (`begin`). It ends with its
lease (farm.store.leases closes it), by being withdrawn, or when nobody could serve it in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session

from farm.domain.devices import DeviceFacts
from farm.domain.leases import RESERVATION, Lease
from farm.domain.outcomes import State
from farm.domain.selectors import Selector, parse
from farm.store import free_devices, leases, tables
from farm.store.bus import touch
from farm.store.prepared import run

QUEUED, ACTIVE, ENDED = "queued", "active", "ended"
#: With more wishes in the queue than this, the planner decides.
_MAX_RIVALS = 50
#: One person's wishes in the queue.
MAX_WAITING = 100


_ASK = insert(tables.Reservation).returning(tables.Reservation.id)
_BEGIN = (
    update(tables.Reservation)
    .where(tables.Reservation.id == bindparam("ident"))
    .values(state=ACTIVE, lease_id=bindparam("lease"), wait_reason=None)
)
#: One look before a wish is served at once: does a job wait that could start, does an earlier wish, is anything paused
#: or drained (what exactly is the planner's matter), is there a quota?
_LOOK = select(
    exists()
    .where(
        tables.Job.state == State.QUEUED.value,
        or_(tables.Job.not_before.is_(None), tables.Job.not_before <= bindparam("now", type_=tables.UtcDateTime)),
    )
    .label("job"),
    exists().where(tables.Reservation.state == QUEUED, tables.Reservation.id != bindparam("ident")).label("rival"),
    exists()
    .where(tables.Hold.lifted_at.is_(None), or_(tables.Hold.until.is_(None), tables.Hold.until > bindparam("now")))
    .label("hold"),
    or_(
        exists().where(tables.Team.name == bindparam("team"), tables.Team.max_devices.is_not(None)),
        exists().where(tables.Token.id == bindparam("token"), tables.Token.max_devices.is_not(None)),
    ).label("limited"),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asks for. `device_id`: that very device; `wait_until` None: waits for ever."""

    selector: str
    lasts: timedelta
    created_by: str
    team: str
    device_id: int | None = None
    token_id: int | None = None
    purpose: str | None = None
    wait_until: datetime | None = None
    begins_at: datetime | None = None  # not before; None: now


@dataclass(frozen=True, slots=True)
class Waiting:
    """A reservation as the planner sees it: it waits like a job of class debug."""

    id: int
    queued_at: datetime
    not_before: datetime
    wants: tuple[Selector, ...]
    pinned: int | None
    team: str
    created_by: str
    token_id: int | None
    lasts: timedelta
    wait_until: datetime | None

    def matches(self, device: DeviceFacts) -> bool:
        if self.pinned is not None:
            return device.id == self.pinned
        facts = device.facts()
        return all(selector.matches(facts) for selector in self.wants)


def request(session: Session, wish: Wish, now: datetime) -> tuple[int, Lease | None]:
    """Note a wish, and serve it at once when that overtakes nobody: its id, and its lease if it has one."""
    begins_at = wish.begins_at or now
    values = {
        "selector": wish.selector,
        "device_id": wish.device_id,
        "team": wish.team,
        "created_by": wish.created_by,
        "token_id": wish.token_id,
        "purpose": wish.purpose,
        "created_at": now,
        "begins_at": begins_at,
        "lasts_s": wish.lasts.total_seconds(),
        "wait_until": wish.wait_until,
        "state": QUEUED,
    }
    ident: int = run(session, _ASK, values).scalar_one()
    lease = _grant_now(session, ident, wish, now) if begins_at <= now else None
    if lease is None:
        touch(session, "reservation", ident, at=now, device_id=wish.device_id)
    return ident, lease


def waiting(session: Session, now: datetime) -> list[Waiting]:
    """Every wish that waits and whose time to wait is not over, oldest first."""
    row = tables.Reservation
    query = select(row).where(row.state == QUEUED, or_(row.wait_until.is_(None), row.wait_until > now))
    return [_waiting(found) for found in session.scalars(query.order_by(row.created_at, row.id))]


def begin(session: Session, ident: int, device_id: int, now: datetime) -> Lease | None:
    """The planner's grant: the wish becomes a lease; None when it does not wait any more.

    Raises AlreadyHeld when the device has been taken meanwhile.
    """
    row = session.get(tables.Reservation, ident, populate_existing=True)
    if row is None or row.state != QUEUED:
        return None
    return _begin(session, ident, device_id, row.team, row.created_by, timedelta(seconds=row.lasts_s), now)


def end(session: Session, ident: int, now: datetime, reason: str) -> bool:
    """Withdraw a wish, or give back what it became; False when it had ended before."""
    row = session.get(tables.Reservation, ident, populate_existing=True)
    if row is None or row.state == ENDED:
        return False
    if row.lease_id is not None:
        return leases.release(session, row.lease_id, now, reason)
    _close(session, row, now, reason)
    return True


def note_reason(session: Session, ident: int, reason: str, now: datetime) -> bool:
    """Say why a wish waits; False when that is nothing new or it does not wait."""
    changed = session.execute(
        update(tables.Reservation)
        .where(
            tables.Reservation.id == ident,
            tables.Reservation.state == QUEUED,
            or_(tables.Reservation.wait_reason.is_(None), tables.Reservation.wait_reason != reason),
        )
        .values(wait_reason=reason)
        .returning(tables.Reservation.id)
    ).first()
    if changed is not None:
        touch(session, "reservation", ident, at=now)
    return changed is not None


def note_ready(session: Session, lease_id: int, now: datetime) -> None:
    """The device has been looked at as it shall be given back: its holder may begin."""
    ident = session.execute(
        update(tables.Reservation)
        .where(tables.Reservation.lease_id == lease_id, tables.Reservation.ready_at.is_(None))
        .values(ready_at=now)
        .returning(tables.Reservation.id)
    ).scalar_one_or_none()
    if ident is not None:
        touch(session, "reservation", ident, at=now)


def any_expired(session: Session, now: datetime) -> bool:
    """Whether `expire` has anything to do: a look that takes no write lock."""
    return session.scalar(select(tables.Reservation.id).where(*_expired(now)).limit(1)) is not None


def expire(session: Session, now: datetime) -> list[int]:
    """End every wish that nobody could serve in time; the reason tells what it waited for last."""
    rows = session.scalars(select(tables.Reservation).where(*_expired(now))).all()
    for row in rows:
        waited = f": {row.wait_reason}" if row.wait_reason else ""
        _close(session, row, now, f"the wait is over{waited}")
    return [row.id for row in rows]


def over_quota(session: Session, team: str, token_id: int | None) -> str | None:
    """Why this team or token may hold no further device now; None when it may."""
    limit = session.scalar(select(tables.Team.max_devices).where(tables.Team.name == team))
    if limit is not None:
        held = _count(session, tables.Lease, tables.Lease.team == team, tables.Lease.released_at.is_(None))
        if held >= limit:
            return f"team {team} holds {held} of {limit} devices"
    limit = (
        None
        if token_id is None
        else session.scalar(select(tables.Token.max_devices).where(tables.Token.id == token_id))
    )
    if limit is not None:
        row = tables.Reservation
        held = _count(session, row, row.token_id == token_id, row.state == ACTIVE)
        if held >= limit:
            return f"this token holds {held} of {limit} devices"
    return None


def too_many_waiting(session: Session, team: str, user: str, token_limit: int | None) -> str | None:
    """Why one more may not wait (the newest, which is there already, counted); None when it may."""
    row = tables.Reservation
    mine = _count(session, row, row.created_by == user, row.state == QUEUED)
    if mine > MAX_WAITING:
        return f"{user} has {MAX_WAITING} reservations in the queue"
    team_limit = session.scalar(select(tables.Team.max_waiting).where(tables.Team.name == team))
    limits = [limit for limit in (team_limit, token_limit) if limit is not None]
    if not limits:
        return None
    jobs = _count(session, tables.Job, tables.Job.state == State.QUEUED.value, tables.Job.run_id.in_(_runs_of(team)))
    waits = jobs + _count(session, row, row.team == team, row.state == QUEUED)
    return f"team {team} has {waits - 1} of {min(limits)} waiting" if waits > min(limits) else None


def _runs_of(team: str) -> Select[int]:
    return select(tables.Run.id).where(tables.Run.team == team, tables.Run.state != State.ENDED.value)


def _count(session: Session, table: type[tables.Base], *where: ColumnElement[bool]) -> int:
    return int(session.scalar(select(func.count()).select_from(table).where(*where)) or 0)


def _expired(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (tables.Reservation.state == QUEUED, tables.Reservation.wait_until <= now)


def _close(session: Session, row: tables.Reservation, now: datetime, reason: str) -> None:
    row.state, row.ended_at, row.end_reason = ENDED, now, reason[:200]
    touch(session, "reservation", row.id, at=now, device_id=row.device_id)


def _begin(
    session: Session, ident: int, device_id: int, team: str, user: str, lasts: timedelta, now: datetime
) -> Lease:
    lease = leases.grant(session, device_id, f"{RESERVATION}{ident}", None, now, now + lasts, team=team, user=user)
    run(session, _BEGIN, {"ident": ident, "lease": lease.id})
    touch(session, "reservation", ident, at=now, device_id=device_id)
    return lease


def _waiting(row: tables.Reservation) -> Waiting:
    return Waiting(
        id=row.id,
        queued_at=row.created_at,
        not_before=row.begins_at,
        wants=(_selector(row.selector),),
        pinned=row.device_id,
        team=row.team,
        created_by=row.created_by,
        token_id=row.token_id,
        lasts=timedelta(seconds=row.lasts_s),
        wait_until=row.wait_until,
    )


_selector = lru_cache(maxsize=1024)(parse)


def _grant_now(session: Session, ident: int, wish: Wish, now: datetime) -> Lease | None:
    """Serve the wish from the devices that are ready, as the planner would; None: it waits for the planner.

    Nobody is overtaken: while a job waits that could start, or an earlier wish matches the device, the planner decides.
    """
    look = run(session, _LOOK, {"ident": ident, "now": now, "team": wish.team, "token": wish.token_id}).one()
    if look.job or look.hold or (look.limited and over_quota(session, wish.team, wish.token_id)):
        return None
    rivals = _rivals(session, ident, now) if look.rival else []
    if len(rivals) > _MAX_RIVALS:
        return None
    wanted = _selector(wish.selector)
    for device in free_devices.ready(session, wish.device_id, now):
        if wish.device_id is None and not wanted.matches(device.facts()):
            continue
        if any(rival.matches(device) for rival in rivals):
            continue
        if not free_devices.lock(session, device.id):
            continue
        try:
            return _begin(session, ident, device.id, wish.team, wish.created_by, wish.lasts, now)
        except leases.AlreadyHeld:  # in the moment between look and lock: no second one while this one is locked
            return None
    return None


def _rivals(session: Session, ident: int, now: datetime) -> list[Waiting]:
    """The wishes that were there before this one and may begin."""
    row = tables.Reservation
    query = select(row).where(
        row.state == QUEUED,
        row.id != ident,
        row.begins_at <= now,
        or_(row.wait_until.is_(None), row.wait_until > now),
    )
    return [_waiting(found) for found in session.scalars(query.limit(_MAX_RIVALS + 1))]
