"""Alerts as rows: opened and cleared so that they agree with the rules of `farm.domain.alerts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain import alerts as rules
from farm.domain.devices import STALE_AFTER, Availability, availability
from farm.store import rivals, tables
from farm.store.bus import touch
from farm.store.devices import fact
from farm.store.hosts import is_away

MAX_SHOWN = 50
#: An unlisted device that was not seen for so long belongs to the fleet no more.
FORGOTTEN_AFTER = timedelta(days=1)
_TROUBLE = (Availability.GONE, Availability.STALE, Availability.QUARANTINED, Availability.MAINTENANCE)


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert. `cleared_at` None: it holds now."""

    id: int
    kind: str
    ref: str
    at: datetime
    message: str
    detail: dict[str, Any]
    cleared_at: datetime | None


def open_alerts(session: Session) -> tuple[AlertRow, ...]:
    """Those that hold now, oldest first."""
    a = tables.Alert
    return _rows(session.scalars(select(a).where(a.cleared_at.is_(None)).order_by(a.at, a.id).limit(MAX_SHOWN)).all())


def cleared(session: Session) -> tuple[AlertRow, ...]:
    """Those that are over, the newest first."""
    a = tables.Alert
    query = select(a).where(a.cleared_at.is_not(None)).order_by(a.cleared_at.desc(), a.id.desc()).limit(MAX_SHOWN)
    return _rows(session.scalars(query).all())


def _rows(found: Sequence[tables.Alert]) -> tuple[AlertRow, ...]:
    return tuple(AlertRow(a.id, a.kind, a.ref, a.at, a.message, a.detail or {}, a.cleared_at) for a in found)


def due(session: Session, now: datetime) -> list[rules.Wanted]:
    """The alerts that should be open, by the rules."""
    hosts = {host.name: host for host in session.scalars(select(tables.Host))}
    rows = session.scalars(select(tables.Device)).all()
    members = [_member(row, hosts[row.host], now) for row in rows if _belongs(row, now)]
    whose = {row.serial: row.host for row in rows}
    return rules.wanted(members, [_host(host, whose, now) for host in hosts.values()], now)


def agrees(session: Session, wanted: Sequence[rules.Wanted]) -> bool:
    """Whether the open rows say what is wanted: then nothing is to be written."""
    a = tables.Alert
    found = session.execute(select(a.kind, a.ref, a.message).where(a.cleared_at.is_(None))).all()
    return {tuple(row) for row in found} == {(w.kind, w.ref, w.message) for w in wanted}


def reconcile(session: Session, wanted: Sequence[rules.Wanted], now: datetime) -> None:
    """Open what is new, reword what has changed, clear what is over."""
    a = tables.Alert
    rows = {(row.kind, row.ref): row for row in session.scalars(select(a).where(a.cleared_at.is_(None)))}
    for alert in wanted:
        row = rows.pop((alert.kind, alert.ref), None)
        if row is None:
            row = a(kind=alert.kind, ref=alert.ref, at=now, message="", detail={})
            session.add(row)
        if row.message != alert.message:
            row.message, row.detail = alert.message, alert.detail
            touch(session, "alert", f"{alert.kind}:{alert.ref}"[:100], at=now)
    for row in rows.values():
        row.cleared_at = now
        touch(session, "alert", f"{row.kind}:{row.ref}"[:100], at=now)


def _belongs(row: tables.Device, now: datetime) -> bool:
    """What was never seen cannot have been lost: it is announced by its tile alone."""
    return row.seen_at is not None and (row.listed or now - row.seen_at < FORGOTTEN_AFTER)


def _member(row: tables.Device, host: tables.Host, now: datetime) -> rules.Member:
    word, why = availability(fact(row, None, host=host), now)
    kind = str((row.labels or {}).get("type_name") or row.type or (row.labels or {}).get("model") or row.name)
    if word not in _TROUBLE:
        return rules.Member(row.id, row.name, kind, row.host)
    since = {
        Availability.GONE: row.connection_at,
        Availability.STALE: None if row.seen_at is None else row.seen_at + STALE_AFTER,
    }.get(word, row.health_at)
    return rules.Member(row.id, row.name, kind, row.host, f"{word.value}, {why}"[:200], since)


def _host(host: tables.Host, whose: Mapping[str, str], now: datetime) -> rules.HostState:
    """`whose`: the host of each device, by serial number."""
    silent = is_away(host, now)
    info = host.info or {}
    duplicates = tuple(
        (str(one["serial"])[:200], tuple(str(address)[:200] for address in one["addresses"][:4]))
        for one in (info.get("duplicates") or [])[:20]
        if isinstance(one, dict) and one.get("serial") and isinstance(one.get("addresses"), list)
    )
    trouble = info.get("adb_trouble")
    trouble = str(trouble)[:500] if trouble else None
    seen = () if silent else dict.fromkeys(one["serial"] for one in rivals.noted(info))
    beside = tuple((serial, whose[serial]) for serial in seen if whose.get(serial, host.name) != host.name)
    return rules.HostState(host.name, silent, host.seen_at, trouble, duplicates, host.unready, beside)
