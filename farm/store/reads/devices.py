"""Devices: their facts as selectors see them, and one device in full."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from farm.domain import readiness
from farm.domain.devices import Availability, DeviceFacts, availability
from farm.evidence import refused
from farm.store import naming, notes, tables
from farm.store.devices import fact, of_fleet
from farm.store.notes import NoteRow
from farm.store.reads.fleet import Tile, tiles
from farm.store.reads.shared import (
    TEMPERATURE,
    DeviceRef,
    IncidentRow,
    Series,
    incident_rows,
    temperature_events,
    thin,
)

MAX_ATTEMPTS = 30
MAX_EVENTS = 300
MAX_INCIDENTS = 30
MAX_PRINTS = 20
HEAT_WINDOW = timedelta(hours=1)
HISTORY_WINDOW = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class FingerprintRow:
    """What the device was measured to be, from `first_seen` to `last_seen`."""

    id: int
    hash: str
    first_seen: datetime
    last_seen: datetime
    current: bool
    facts: dict[str, Any]
    differences: tuple[tuple[str, str | None, str | None], ...]  # key, value before, value here; newest against older


@dataclass(frozen=True, slots=True)
class RecentAttempt:
    """An attempt on this device, newest first."""

    attempt_id: int
    run_id: int
    run_title: str
    suites: tuple[str, ...]
    number: int
    phase: str
    outcome: str | None
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """A line of the device's history: connection, health, lease, reboot, …"""

    at: datetime
    kind: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceDetail:
    tile: Tile
    health_by: str | None
    health_at: datetime | None
    health_action: str | None  # what a person is advised to do
    health_log: str | None  # the tail of what led to its health
    strikes: int  # attempts that it or its host spoilt, in a row
    warnings: tuple[str, ...]  # no work waits for them: clock, charge
    notes: tuple[NoteRow, ...]
    connection_at: datetime | None
    fingerprints: tuple[FingerprintRow, ...]
    attempts: tuple[RecentAttempt, ...]
    events: tuple[EventRow, ...]
    incidents: tuple[IncidentRow, ...]  # without what suites tried: that is no trouble of the device
    temperature: Series  # the last hour


def facts_of(session: Session) -> list[DeviceFacts]:
    """Every device as planner, selectors and preview see it. Three queries."""
    lease, attempt, job = tables.Lease, tables.Attempt, tables.Job
    query = (
        select(lease, job.run_id)
        .outerjoin(attempt, attempt.id == lease.attempt_id)
        .outerjoin(job, job.id == attempt.job_id)
        .where(lease.ended_at.is_(None))
    )
    held = {row.device_id: (row, run_id) for row, run_id in session.execute(query)}
    rows = session.scalars(select(tables.Device).where(of_fleet()).order_by(tables.Device.name, tables.Device.id))
    hosts = {host.name: host for host in session.scalars(select(tables.Host))}
    nobody: tuple[tables.Lease | None, int | None] = (None, None)
    return [fact(row, *held.get(row.id, nobody), hosts[row.host]) for row in rows]


def states(session: Session, now: datetime) -> list[tuple[DeviceFacts, Availability, str]]:
    """Every device with its availability and why."""
    return [(facts, *availability(facts, now)) for facts in facts_of(session)]


def device(session: Session, ref: str, now: datetime) -> DeviceDetail | None:
    """One device as a person names it; None when there is none. Raises AmbiguousName."""
    row = find(session, ref)
    if row is None:
        return None
    (tile,) = tiles(session, now, row.id)
    here = DeviceRef(row.id, row.serial, row.name, row.virtual, tile.model, tile.kind)
    incidents = session.scalars(
        select(tables.Incident)
        .where(tables.Incident.device_id == row.id, tables.Incident.klass.not_in(refused.CLASSES))
        .order_by(tables.Incident.id.desc())
        .limit(MAX_INCIDENTS)
    )
    heat = temperature_events(session, [row.id], now - HEAT_WINDOW, now).get(row.id, [])
    return DeviceDetail(
        tile=tile,
        health_by=row.health_by,
        health_at=row.health_at,
        health_action=row.health_action,
        health_log=row.health_log,
        strikes=row.strikes,
        warnings=tuple(readiness.warnings(row.clock_skew_s, row.battery_pct)),
        notes=notes.of_device(session, row.id),
        connection_at=row.connection_at,
        fingerprints=_fingerprints(session, row),
        attempts=_attempts(session, row.id),
        events=_events(session, row.id, now),
        incidents=incident_rows(incidents, {row.id: here}),
        temperature=Series("temperature", "°C", thin(heat)),
    )


def find(session: Session, ref: str) -> tables.Device | None:
    """The row of the device that a person means (`farm.store.naming`). Raises AmbiguousName."""
    ident = naming.device_id(session, ref)
    return None if ident is None else session.get(tables.Device, ident)


def _attempts(session: Session, device_id: int) -> tuple[RecentAttempt, ...]:
    a, job, run = tables.Attempt, tables.Job, tables.Run
    query = (
        select(a, job.suites, run.id, run.title)
        .join(job, job.id == a.job_id)
        .join(run, run.id == job.run_id)
        .where(a.device_id == device_id)
        .order_by(a.id.desc())
        .limit(MAX_ATTEMPTS)
    )
    return tuple(
        RecentAttempt(
            attempt_id=row.id,
            run_id=run_id,
            run_title=title,
            suites=tuple(str(s) for s in suites),
            number=row.number,
            phase=row.phase,
            outcome=row.outcome,
            reason=row.reason,
            created_at=row.created_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
        )
        for row, suites, run_id, title in session.execute(query)
    )


def _events(session: Session, device_id: int, now: datetime) -> tuple[EventRow, ...]:
    """The newest lines of its history; temperature readings are a series, not history."""
    e = tables.DeviceEvent
    query = (
        select(e)
        .where(e.device_id == device_id, or_(e.kind < TEMPERATURE, e.kind > TEMPERATURE), e.at > now - HISTORY_WINDOW)
        .order_by(e.at.desc(), e.id.desc())
        .limit(MAX_EVENTS)
    )
    return tuple(EventRow(row.at, row.kind, row.detail or {}) for row in session.scalars(query))


def _fingerprints(session: Session, device: tables.Device) -> tuple[FingerprintRow, ...]:
    """Newest first, each with what differs from the one before it."""
    f = tables.Fingerprint
    query = select(f).where(f.device_id == device.id).order_by(f.first_seen.desc(), f.id.desc()).limit(MAX_PRINTS)
    rows = list(session.scalars(query))
    older: list[tables.Fingerprint | None] = [*rows[1:], None] if rows else []
    return tuple(
        FingerprintRow(
            id=row.id,
            hash=row.hash,
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            current=row.id == device.fingerprint_id,
            facts=row.facts or {},
            differences=differences(before.facts or {}, row.facts or {}) if before else (),
        )
        for row, before in zip(rows, older, strict=True)
    )


def differences(before: dict[str, Any], now: dict[str, Any]) -> tuple[tuple[str, str | None, str | None], ...]:
    """(key, value before, value now) of every fact that is not the same, by key; nested facts as `a.b`."""
    old, new = flat(before), flat(now)
    keys = sorted(old.keys() | new.keys())
    return tuple((key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key))


def flat(facts: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested facts as one level: `cpu.cores` → "8"; lists are joined by blanks."""
    out: dict[str, str] = {}
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            out.update(flat(value, f"{name}."))
        elif isinstance(value, list):
            out[name] = " ".join(str(item) for item in value)
        else:
            out[name] = "not measured" if value is None else str(value)
    return out
