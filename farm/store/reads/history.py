"""What happened to a device lately, as spans on one axis of time: its connection, health, holders and temperature."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.devices import Health
from farm.domain.leases import held_by
from farm.store import tables
from farm.store.reads.shared import TEMPERATURE, Series, temperature_events, thin

#: Changes of one kind that are read at most; with more, the history begins later.
MAX_CHANGES = 500


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch in which `word` held; `ended_at` None: it still does.

    `holder` is a lease's (`attempt:17`), `held_by` the same as people know it.
    """

    word: str
    began_at: datetime
    ended_at: datetime | None
    holder: str | None = None
    held_by: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Everything lies within `begin` and `end`, save that a first span may have begun earlier."""

    begin: datetime
    end: datetime
    connection: tuple[Span, ...]
    health: tuple[Span, ...]
    held: tuple[Span, ...]  # word: "held", and "cleaned" from the release to the end
    reboots: tuple[datetime, ...]
    temperature: Series


def history(session: Session, device_id: int, window: timedelta, now: datetime) -> History | None:
    """The device's last `window`, or what is known of it where that is less; None when there is no such device."""
    row = session.get(tables.Device, device_id)
    if row is None:
        return None
    known = _first_seen(session, device_id)
    begin = max(now - window, known) if known else now - window
    connection = _changes(session, device_id, "connection", begin)
    health = _changes(session, device_id, "health", begin)
    if health and health[0].began_at > begin:  # nobody said anything before: so it is when a device is first seen
        health.insert(0, Span(Health.GOOD.value, begin, health[0].began_at))
    leases = _leases(session, device_id, begin)
    for full in (connection, health, leases):
        if len(full) >= MAX_CHANGES:
            begin = max(begin, full[0].began_at)
    reboots = _times(session, device_id, "rebooted", begin)
    heat = temperature_events(session, [device_id], begin, now).get(device_id, [])
    return History(
        begin=begin,
        end=now,
        connection=_from(begin, connection) or (Span(row.connection, begin, None),),
        health=_from(begin, health) or (Span(row.health, begin, None),),
        held=_from(begin, leases),
        reboots=reboots,
        temperature=Series(TEMPERATURE, "°C", thin(heat)),
    )


def _first_seen(session: Session, device_id: int) -> datetime | None:
    e = tables.DeviceEvent
    kinds = ("connection", "leased", TEMPERATURE)  # each is the beginning of an index
    found = (session.scalar(select(func.min(e.at)).where(e.device_id == device_id, e.kind == kind)) for kind in kinds)
    return min((at for at in found if at is not None), default=None)


def _changes(session: Session, device_id: int, kind: str, since: datetime) -> list[Span]:
    """Spans between the events of this kind, whose detail names the new state; the one before `since` comes first."""
    e = tables.DeviceEvent
    query = select(e.at, e.detail).where(e.device_id == device_id, e.kind == kind).order_by(e.at.desc(), e.id.desc())
    rows = list(session.execute(query.where(e.at >= since).limit(MAX_CHANGES)))
    if len(rows) < MAX_CHANGES:
        rows += list(session.execute(query.where(e.at < since).limit(1)))
    told = [(at, str((detail or {}).get(kind))) for at, detail in reversed(rows) if (detail or {}).get(kind)]
    ends = [at for at, _ in told[1:]]
    return _joined([Span(word, at, end) for (at, word), end in itertools.zip_longest(told, ends)])


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbours with one word as one span: a change of something else (an address) is none here."""
    out: list[Span] = []
    for span in spans:
        if out and out[-1].word == span.word:
            out[-1] = Span(span.word, out[-1].began_at, span.ended_at)
        else:
            out.append(span)
    return out


def _leases(session: Session, device_id: int, since: datetime) -> list[Span]:
    lease, attempt, job = tables.Lease, tables.Attempt, tables.Job
    query = (
        select(lease, job.run_id)
        .outerjoin(attempt, attempt.id == lease.attempt_id)
        .outerjoin(job, job.id == attempt.job_id)
        .where(lease.device_id == device_id, (lease.ended_at.is_(None)) | (lease.ended_at >= since))
        .order_by(lease.id.desc())
        .limit(MAX_CHANGES)
    )
    spans: list[Span] = []
    for row, run_id in reversed(list(session.execute(query))):
        who = held_by(row.holder, row.user, row.team, run_id)
        spans.append(Span("held", row.granted_at, row.released_at or row.ended_at, row.holder, who))
        if row.released_at is not None and row.released_at != row.ended_at:
            spans.append(Span("cleaned", row.released_at, row.ended_at, row.holder, who))
    return spans


def _times(session: Session, device_id: int, kind: str, since: datetime) -> tuple[datetime, ...]:
    e = tables.DeviceEvent
    query = select(e.at).where(e.device_id == device_id, e.kind == kind, e.at >= since).order_by(e.at.desc())
    return tuple(reversed(list(session.scalars(query.limit(MAX_CHANGES)))))


def _from(begin: datetime, spans: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(span for span in spans if span.ended_at is None or span.ended_at > begin)
