"""Hosts: made known by their agents, heard of, lost and found again.

An agent says who it is each time it starts (`register`, safe to repeat) and that it lives every few seconds (`beat`). A
host is *lost* from the moment on at which somebody found out (its agent's channel closed, or nothing was heard for
too long) until it is heard of again. It is *unready* while its agent says that it cannot take work, and why. No work is
begun on the devices of a lost host, nor on those of one that is not ready.

A farm of one process has one host, its own: however late its heartbeat is written on a busy machine, it is there while
anybody is answered (`alive_at`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, object_session

from farm.domain.devices import is_silent
from farm.store import tables
from farm.store.bus import touch


def ensure(session: Session, name: str) -> tables.Host:
    """The host's row, made when it is new, whoever else makes it at the same moment."""
    row = session.get(tables.Host, name)
    if row is not None:
        return row
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    session.execute(insert(tables.Host).values(name=name, drained=False, info={}).on_conflict_do_nothing())
    return session.get_one(tables.Host, name)


def hold(session: Session, name: str) -> tables.Host:
    """The host's row as it is now, ours until the transaction ends."""
    ensure(session, name)
    query = select(tables.Host).where(tables.Host.name == name).with_for_update()
    return session.execute(query, execution_options={"populate_existing": True}).scalar_one()


def register(
    session: Session, name: str, incarnation: str, channel_secret: str, info: Mapping[str, Any], now: datetime
) -> None:
    """An agent process speaks for the host from now on; what it says of itself is laid over `info`."""
    row = hold(session, name)
    row.incarnation, row.channel_hash = incarnation, _hash(channel_secret)
    row.info = {**row.info, **info, "registered_at": now.isoformat()}
    row.seen_at, row.lost_at = now, None
    _announce(session, name, now)


def beat(session: Session, name: str, now: datetime, unready: str | None = None) -> bool:
    """The host lives; True when it had been lost. `unready`: why it must not be given work; None: nothing is known."""
    ensure(session, name)
    host = tables.Host
    before = session.execute(select(host.lost_at, host.unready).where(host.name == name)).one()
    session.execute(update(host).where(host.name == name).values(seen_at=now, lost_at=None, unready=unready))
    if before.lost_at is not None or (before.unready is None) is not (unready is None):
        _announce(session, name, now)
    return before.lost_at is not None


def lose(session: Session, name: str, now: datetime, incarnation: str | None = None) -> bool:
    """Nobody hears the host any more; False when that is known, or when another incarnation speaks for it by now."""
    query = update(tables.Host).where(tables.Host.name == name, tables.Host.lost_at.is_(None))
    if incarnation is not None:
        query = query.where(tables.Host.incarnation == incarnation)
    lost = session.execute(query.values(lost_at=now).returning(tables.Host.name)).first() is not None
    if lost:
        _announce(session, name, now)
    return lost


def fallen_silent(session: Session, now: datetime) -> list[str]:
    """Hosts that were heard of once and not for too long, and that nobody has called lost yet."""
    rows = session.execute(
        select(tables.Host.name, tables.Host.seen_at).where(
            tables.Host.lost_at.is_(None), tables.Host.seen_at.is_not(None)
        )
    )
    return [name for name, seen_at in rows if is_silent(alive_at(session, name) or seen_at, now)]


def alive_at(session: Session | None, name: str) -> datetime | None:
    """When the transaction began, where this process is all of the host; None: its heartbeat says when it was heard."""
    found: datetime | None = None if session is None else session.info.get(("alive", name))
    return found


def is_away(row: tables.Host, now: datetime) -> bool:
    """Whether the host is lost, or silent for too long."""
    alive = alive_at(object_session(row), row.name)
    return alive is None and (row.lost_at is not None or is_silent(row.seen_at, now))


def incarnation_of(session: Session, name: str) -> str | None:
    """The agent process that registered last for the host."""
    return session.scalar(select(tables.Host.incarnation).where(tables.Host.name == name))


def speaks_for(session: Session, name: str, incarnation: str, secret: str) -> bool:
    """Whether this is the agent process that registered last for the host."""
    row = session.get(tables.Host, name)
    if row is None or row.incarnation != incarnation or not row.channel_hash:
        return False
    return hmac.compare_digest(row.channel_hash, _hash(secret))


def _announce(session: Session, name: str, now: datetime) -> None:
    """The host changed, and with it what can be done with its devices."""
    touch(session, "host", name, at=now)
    for device_id in session.scalars(select(tables.Device.id).where(tables.Device.host == name)):
        touch(session, "device", device_id, at=now, device_id=device_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
