"""Rows that would grow for ever are thinned and forgotten, a small transaction at a time.

Each function does one bounded piece, so that nobody who writes waits for more than a few hundred deletions, and says
how much it did: the caller goes on while there was something to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from farm.store import tables
from farm.store.bus import KEEP

#: Most rows that one transaction deletes.
BATCH = 500
#: The series of attempts that ended so long ago are in as few chunks as they will ever be.
LATELY = timedelta(hours=1)
#: Temperature readings are all kept for so long…
FULL_FOR = timedelta(hours=1)
#: …then one a minute, until they are this old.
THIN_FOR = timedelta(days=7)


def prune_changes(session: Session, now: datetime, keep: timedelta = KEEP) -> int:
    """Forget the oldest changes, at most `BATCH`; how many were older than `keep`.

    The newest one always stays: SQLite would give its number to the next change, and who had seen it would miss that.
    """
    c = tables.Change
    oldest = session.execute(select(c.id, c.at).order_by(c.id).limit(BATCH)).all()
    newest = session.scalar(select(func.max(c.id)))
    old = [row.id for row in oldest if row.at < now - keep and row.id != newest]
    session.execute(delete(c).where(c.id.in_(old)))
    return len(old)


def forget_temperatures(session: Session, device_id: int, before: datetime) -> int:
    """Forget a device's oldest readings from before then, at most `BATCH`; how many there were."""
    e = tables.DeviceEvent
    oldest = select(e.id).where(e.device_id == device_id, e.kind == "temperature", e.at < before).order_by(e.at)
    ids = list(session.scalars(oldest.limit(BATCH)))
    session.execute(delete(e).where(e.id.in_(ids)))
    return len(ids)


def temperatures_between(
    session: Session, device_id: int, since: datetime, before: datetime
) -> list[tuple[int, datetime]]:
    """(id, time) of a device's oldest readings of that span, at most `BATCH`."""
    e = tables.DeviceEvent
    span = select(e.id, e.at).where(e.device_id == device_id, e.kind == "temperature", e.at >= since, e.at < before)
    return [(row.id, row.at) for row in session.execute(span.order_by(e.at, e.id).limit(BATCH))]


def surplus(readings: Iterable[tuple[int, datetime]]) -> list[int]:
    """Ids of those that are not the first of their minute. `readings` are in order of time."""
    seen: set[datetime] = set()
    left: list[int] = []
    for id_, at in readings:
        if minute(at) in seen:
            left.append(id_)
        seen.add(minute(at))
    return left


def minute(at: datetime) -> datetime:
    """The beginning of its minute."""
    return at.replace(second=0, microsecond=0)


def delete_events(session: Session, ids: Iterable[int]) -> None:
    """Take these events out of their devices' history."""
    session.execute(delete(tables.DeviceEvent).where(tables.DeviceEvent.id.in_(list(ids))))
