"""The fleet at a glance: every device with what it does, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.devices import Availability, Connection, DeviceFacts, availability, remedy
from farm.domain.outcomes import State
from farm.store import inventories, tables
from farm.store.alerts import AlertRow, open_alerts
from farm.store.devices import fact, of_fleet
from farm.store.hosts import is_away
from farm.store.reads.progress import of_jobs
from farm.store.reads.shared import Point, kind_of, model_of, temperature_events, thin

#: How far back a tile's temperature line reaches.
SPARK_WINDOW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Work:
    """What holds a device right now. Tests are the whole job's (`Progress`); `tests_total` None: not collected yet."""

    run_id: int
    run_title: str
    suites: tuple[str, ...]
    attempt_id: int
    phase: str
    phase_began_at: datetime | None
    tests_done: int
    tests_total: int | None
    waiting_for: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Tile:
    """A device as the fleet shows it; `temperatures` are the last minutes' readings, oldest first."""

    facts: DeviceFacts
    model: str
    kind: str
    address: str | None
    availability: Availability
    why: str
    work: Work | None
    temperatures: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class HostRow:
    """A machine with devices on it."""

    name: str
    seen_at: datetime | None
    silent: bool
    drained: bool
    devices: int
    unready: str | None = None  # why it must not be given work


@dataclass(frozen=True, slots=True)
class Unidentified:
    """A device that adb lists and that cannot say who it is: adb's word for its state, and what helps."""

    host: str
    address: str
    state: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs that wait. `oldest_why` is what the oldest of them waits for, in the planner's words."""

    length: int
    oldest_at: datetime | None
    oldest_why: str | None
    oldest_run: int | None


@dataclass(frozen=True, slots=True)
class Fleet:
    at: datetime
    tiles: tuple[Tile, ...]
    hosts: tuple[HostRow, ...]
    counts: dict[str, int]  # by Availability value; absent means none
    queue: Queue
    needs_hand: tuple[str, ...]  # names of devices that a person should look at
    unidentified: tuple[Unidentified, ...]  # on hosts that are heard of
    inventory_errors: tuple[str, ...]  # why the inventory's file is not in force; the one before it is
    alerts: tuple[AlertRow, ...]  # those that hold now


def fleet(session: Session, now: datetime) -> Fleet:
    """Every device that is listed or was seen, listed ones first, by name; virtual ones are marked in their facts."""
    found = tiles(session, now)
    per_host = Counter(tile.facts.host for tile in found)
    rows = list(session.scalars(select(tables.Host).order_by(tables.Host.name)))
    hosts = tuple(HostRow(h.name, h.seen_at, is_away(h, now), h.drained, per_host[h.name], h.unready) for h in rows)
    strangers = tuple(one for row in rows if not is_away(row, now) for one in _unidentified(row))
    counts = Counter(tile.availability.value for tile in found)
    needs = tuple(tile.facts.name for tile in found if _needs_hand(tile))
    errors, alerts = inventories.errors(session), open_alerts(session)
    return Fleet(now, found, hosts, dict(counts), _queue(session), needs, strangers, errors, alerts)


def _unidentified(host: tables.Host) -> list[Unidentified]:
    """What the host's agent noted; a note that makes no sense is passed over."""
    noted = [one for one in host.info.get("unidentified") or [] if isinstance(one, dict)]
    words = [(str(one.get("address") or "")[:200], str(one.get("state") or "")[:200]) for one in noted]
    return [Unidentified(host.name, address, state, remedy(state)) for address, state in words if address and state]


def tiles(session: Session, now: datetime, device_id: int | None = None) -> tuple[Tile, ...]:
    """A tile per device, listed ones first, by name; just one for `device_id`. Six queries."""
    query = select(tables.Device).order_by(
        tables.Device.listed.desc(), func.lower(tables.Device.name), tables.Device.id
    )
    query = query.where(of_fleet() if device_id is None else tables.Device.id == device_id)
    devices = list(session.scalars(query))
    ids = [row.id for row in devices]
    leases, work = _work(session, ids)
    heat = temperature_events(session, ids, now - SPARK_WINDOW, now)
    hosts = {host.name: host for host in session.scalars(select(tables.Host))}
    return tuple(
        _tile(row, leases.get(row.id), hosts[row.host], work.get(row.id), heat.get(row.id, []), now) for row in devices
    )


def _tile(
    row: tables.Device,
    lease: tables.Lease | None,
    host: tables.Host,
    work: Work | None,
    heat: Sequence[Point],
    now: datetime,
) -> Tile:
    facts = fact(row, lease, None if work is None else work.run_id, host)
    word, why = availability(facts, now)
    model = model_of(facts.labels, row.type, row.name)
    kind = kind_of(facts.labels, row.has_battery)
    return Tile(facts, model, kind, row.address, word, why, work, thin(heat, 60))


def _work(session: Session, device_ids: Sequence[int]) -> tuple[dict[int, tables.Lease], dict[int, Work]]:
    """Open leases by device, and what the leases' attempts do."""
    lease, attempt, job, run = tables.Lease, tables.Attempt, tables.Job, tables.Run
    query = (
        select(lease, attempt, job.suites, run.id, run.title)
        .outerjoin(attempt, attempt.id == lease.attempt_id)
        .outerjoin(job, job.id == attempt.job_id)
        .outerjoin(run, run.id == job.run_id)
        .where(lease.ended_at.is_(None), lease.device_id.in_(device_ids))
    )
    held = list(session.execute(query))
    attempts = [row[1] for row in held if row[1] is not None]
    began = _phase_starts(session, [tried.id for tried in attempts])
    progress = of_jobs(session, [tried.job_id for tried in attempts])
    leases: dict[int, tables.Lease] = {}
    work: dict[int, Work] = {}
    for held_lease, tried, suites, run_id, title in held:
        leases[held_lease.device_id] = held_lease
        if tried is None or run_id is None:
            continue
        work[held_lease.device_id] = Work(
            run_id=run_id,
            run_title=title,
            suites=tuple(str(s) for s in suites),
            attempt_id=tried.id,
            phase=tried.phase,
            phase_began_at=began.get((tried.id, tried.phase)),
            tests_done=progress[tried.job_id].done,
            tests_total=progress[tried.job_id].known,
            waiting_for=tried.waiting_for,
            since=held_lease.granted_at,
        )
    return leases, work


def _phase_starts(session: Session, attempt_ids: Sequence[int]) -> dict[tuple[int, str], datetime]:
    p = tables.AttemptPhase
    query = select(p.attempt_id, p.phase, p.began_at).where(p.attempt_id.in_(attempt_ids))
    return {(row.attempt_id, row.phase): row.began_at for row in session.execute(query)}


def _queue(session: Session) -> Queue:
    job = tables.Job
    waiting = job.state == State.QUEUED.value
    length = session.scalar(select(func.count()).where(waiting)) or 0
    oldest = session.execute(
        select(job.queued_at, job.wait_reason, job.run_id).where(waiting).order_by(job.queued_at, job.id).limit(1)
    ).first()
    if oldest is None:
        return Queue(length, None, None, None)
    return Queue(length, oldest.queued_at, oldest.wait_reason, oldest.run_id)


def _needs_hand(tile: Tile) -> bool:
    """Whether only a person can bring it back: quarantined, not authorized, or listed and gone."""
    facts = tile.facts
    return (
        tile.availability is Availability.QUARANTINED
        or facts.connection is Connection.UNAUTHORIZED
        or (tile.availability is Availability.GONE and facts.listed)
    )
