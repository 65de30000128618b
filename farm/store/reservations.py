"""Reservations: wishes of people and programs for a device, and the leases that they become.

A wish is a row. When nothing that waits could want the device, `grant_now` makes it a lease in the caller's own
transaction; otherwise it waits among the debug jobs (`waiting`), and whoever frees a device hands it over
(farm.store.handover) or the planner grants it (`begin`). It ends with its lease (farm.store.leases closes it), by being
withdrawn, or when nobody could serve it in time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session

from farm.domain.devices import DeviceFacts
from farm.domain.leases import RESERVATION, Lease
from farm.domain.outcomes import State
from farm.domain.selectors import Mismatch, Selector, nearest, parse
from farm.domain.words import count
from farm.store import devices, free_devices, leases, tables
from farm.store.bus import touch
from farm.store.prepared import run

QUEUED, ACTIVE, ENDED = "queued", "active", "ended"
#: With more different wishes in the queue than this, the planner decides.
_MAX_WANTS = 50
#: One person's wishes in the queue.
MAX_WAITING = 1000

_ROW = tables.Reservation
_NOW = bindparam("now", type_=tables.UtcDateTime)
#: A wish that waits, may begin, and is not given up.
DUE = (_ROW.state == QUEUED, _ROW.begins_at <= _NOW, or_(_ROW.wait_until.is_(None), _ROW.wait_until > _NOW))

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
        or_(tables.Job.not_before.is_(None), tables.Job.not_before <= _NOW),
    )
    .label("job"),
    exists().where(_ROW.state == QUEUED, _ROW.id != bindparam("ident")).label("rival"),
    exists()
    .where(tables.Hold.lifted_at.is_(None), or_(tables.Hold.until.is_(None), tables.Hold.until > _NOW))
    .label("hold"),
    or_(
        exists().where(tables.Team.name == bindparam("team"), tables.Team.max_devices.is_not(None)),
        exists().where(tables.Token.id == bindparam("token"), tables.Token.max_devices.is_not(None)),
    ).label("limited"),
)
#: The different wishes that wait, beside one's own.
_WANTS = (
    select(_ROW.team, _ROW.selector, _ROW.device_id)
    .where(*DUE, _ROW.id != bindparam("ident"))
    .distinct()
    .limit(_MAX_WANTS + 1)
)
#: How many wishes somebody has in the queue (one's own new one counted), and how many their team may have.
_QUEUE = select(
    select(func.count())
    .select_from(_ROW)
    .where(_ROW.created_by == bindparam("user"), _ROW.state == QUEUED)
    .scalar_subquery()
    .label("mine"),
    select(tables.Team.max_waiting).where(tables.Team.name == bindparam("team")).scalar_subquery().label("team_limit"),
)
_CLOSE = (
    update(_ROW)
    .where(_ROW.id == bindparam("ident"), _ROW.state == QUEUED)
    .values(state=ENDED, ended_at=_NOW, end_reason=bindparam("reason"))
    .returning(_ROW.device_id)
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


@dataclass(frozen=True, slots=True)
class Want:
    """What one or more who wait have in common."""

    team: str
    selector: str
    pinned: int | None

    def matches(self, device: DeviceFacts) -> bool:
        if self.pinned is not None:
            return device.id == self.pinned
        return _selector(self.selector).matches(device.facts())


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


def waiting(session: Session, now: datetime, ids: Collection[int] | None = None) -> list[Waiting]:
    """Every wish (or those of these ids) that waits and whose time to wait is not over, oldest first."""
    query = select(*(getattr(_ROW, name) for name in _WAITS)).where(
        _ROW.state == QUEUED, or_(_ROW.wait_until.is_(None), _ROW.wait_until > now)
    )
    if ids is not None:
        query = query.where(_ROW.id.in_(sorted(ids)))
    return [_waiting(found) for found in session.execute(query.order_by(_ROW.created_at, _ROW.id))]


def wants(session: Session, ident: int, now: datetime) -> list[Want]:
    """What those who wait ask for, apart from the wish `ident`: each different one once, at most `_MAX_WANTS` + 1."""
    return [Want(*found) for found in run(session, _WANTS, {"ident": ident, "now": now})]


def planner_has_nothing_to_say(session: Session, now: datetime) -> bool:
    """Whether no job waits that could start, and nothing is paused or drained."""
    look = run(session, _LOOK, {"ident": 0, "now": now, "team": "", "token": None}).one()
    return not (look.job or look.hold)


def begin(session: Session, ident: int, device_id: int, now: datetime) -> Lease | None:
    """The planner's grant: the wish becomes a lease; None when it does not wait any more.

    Raises AlreadyHeld when the device has been taken meanwhile.
    """
    row = session.get(tables.Reservation, ident, populate_existing=True, with_for_update=True)
    if row is None or row.state != QUEUED:
        return None
    return serve(session, ident, device_id, row.team, row.created_by, timedelta(seconds=row.lasts_s), now)


def end(session: Session, ident: int, now: datetime, reason: str) -> bool:
    """Withdraw a wish, or give back what it became; False when it had ended before."""
    if _close(session, ident, now, reason):
        return True
    row = session.get(tables.Reservation, ident, populate_existing=True)  # whoever granted it was faster
    if row is None or row.state == ENDED or row.lease_id is None:
        return False
    return leases.release(session, row.lease_id, now, reason)


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
    rows = session.execute(select(_ROW.id, _ROW.wait_reason).where(*_expired(now))).all()
    ended = []
    for ident, waited_for in rows:
        if _close(session, ident, now, f"the wait is over{f': {waited_for}' if waited_for else ''}"):
            ended.append(ident)
    return ended


def over_quota(session: Session, team: str, token_id: int | None) -> str | None:
    """Why this team or token may hold no further device now; None when it may."""
    limit = session.scalar(select(tables.Team.max_devices).where(tables.Team.name == team))
    if limit is not None:
        held = _count(session, tables.Lease, tables.Lease.team == team, tables.Lease.released_at.is_(None))
        if held >= limit:
            return f"team {team} holds {held} of {count(limit, 'device')}"
    limit = (
        None
        if token_id is None
        else session.scalar(select(tables.Token.max_devices).where(tables.Token.id == token_id))
    )
    if limit is not None:
        row = tables.Reservation
        held = _count(session, row, row.token_id == token_id, row.state == ACTIVE)
        if held >= limit:
            return f"this token holds {held} of {count(limit, 'device')}"
    return None


@dataclass(frozen=True, slots=True)
class TooMany:
    """More wishes than one person, team or token may have in the queue."""

    words: str


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Nothing in the fleet is what the wish asks for; the devices that come nearest, the best first."""

    nearest: Sequence[Mismatch]


def may_not_wait(session: Session, wish: Wish, token_limit: int | None) -> TooMany | NoMatch | None:
    """Why a wish, which is in the queue already, may not stay there; None when it may."""
    full = _too_many(session, wish, token_limit)
    if full is not None:
        return TooMany(full)
    wanted = _selector(wish.selector)
    if wish.device_id is not None or free_devices.any_known(session, lambda device: wanted.matches(device.facts())):
        return None
    return NoMatch(nearest(wanted, devices.facts(session))[:3])


def _too_many(session: Session, wish: Wish, token_limit: int | None) -> str | None:
    row, team = tables.Reservation, wish.team
    queue = run(session, _QUEUE, {"user": wish.created_by, "team": team}).one()
    if queue.mine > MAX_WAITING:
        return f"{wish.created_by} has {MAX_WAITING} reservations in the queue"
    limits = [limit for limit in (queue.team_limit, token_limit) if limit is not None]
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


def _close(session: Session, ident: int, now: datetime, reason: str) -> bool:
    """End a wish that still waits; False: it does not."""
    closed = run(session, _CLOSE, {"ident": ident, "now": now, "reason": reason[:200]}).first()
    if closed is None:
        return False
    touch(session, "reservation", ident, at=now, device_id=closed[0])
    return True


def serve(session: Session, ident: int, device_id: int, team: str, user: str, lasts: timedelta, now: datetime) -> Lease:
    """Make a wish that this transaction has locked, or made, a lease. Raises AlreadyHeld."""
    lease = leases.grant(session, device_id, f"{RESERVATION}{ident}", None, now, now + lasts, team=team, user=user)
    run(session, _BEGIN, {"ident": ident, "lease": lease.id})
    touch(session, "reservation", ident, at=now, device_id=device_id)
    return lease


#: The columns of a wish that the planner looks at.
_WAITS = (
    "id", "created_at", "begins_at", "selector", "device_id", "team", "created_by", "token_id", "lasts_s", "wait_until",
)  # fmt: skip


def _waiting(row: Row[Any]) -> Waiting:
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
    rivals = wants(session, ident, now) if look.rival else []
    if len(rivals) > _MAX_WANTS:
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
            return serve(session, ident, device.id, wish.team, wish.created_by, wish.lasts, now)
        except leases.AlreadyHeld:  # in the moment between look and lock: no second one while this one is locked
            return None
    return None
