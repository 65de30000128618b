"""Signatures and clusters of incidents: given when an incident is stored, grouped anew when new signatures came.

A signature that nobody saw before begins a cluster of its own; grouping (`candidates`, then `gather`) puts it into an
older one where they are alike. A cluster that is empty, and that no person named or muted, is let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from farm.evidence import signature as rules
from farm.evidence.clusters import MAX_TEXTS
from farm.store import tables
from farm.store.bus import touch

#: Incidents from before there were signatures that one transaction looks at.
BATCH = 200
_INSERT = {
    "sqlite": sqlite.insert(tables.Signature).on_conflict_do_nothing().returning(tables.Signature.key),
    "postgresql": postgresql.insert(tables.Signature).on_conflict_do_nothing().returning(tables.Signature.key),
}


class NoSuchCluster(LookupError):
    """There is no cluster of that number, or it went into another one."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is grouped: texts by signature, where each is now, and which clusters people named or muted."""

    texts: Mapping[str, str]
    clusters: Mapping[str, int]
    kept: frozenset[int]


def sign(session: Session, incident: tables.Incident, found: rules.Signature | None = None) -> None:
    """Give the incident its signature, `found` where the caller knows it; one that is new begins a cluster."""
    if found is None:
        device = session.get_one(tables.Device, incident.device_id)
        names = [name for name in (device.serial, device.address, device.name) if name]
        found = rules.of_incident(incident.klass, incident.summary, incident.evidence, names)
    incident.signature = found.key
    row = session.get(tables.Signature, found.key)
    if row is None:
        _begin(session, found, incident.at)
        return
    row.first_seen, row.last_seen = min(row.first_seen, incident.at), max(row.last_seen, incident.at)


def _begin(session: Session, found: rules.Signature, at: datetime) -> None:
    cluster = tables.Cluster(created_at=at)
    session.add(cluster)
    session.flush()
    values = {
        "key": found.key,
        "cluster_id": cluster.id,
        "klass": found.klass[:80],
        "basis": found.basis,
        "title": found.title,
        "text": found.text[:4000],
        "first_seen": at,
        "last_seen": at,
    }
    if session.scalar(_INSERT[session.get_bind().dialect.name], values) is None:  # another process was faster
        session.delete(cluster)


def sign_old(session: Session) -> int:
    """Give a batch of the incidents without one their signature; how many there were."""
    i = tables.Incident
    rows = session.scalars(select(i).where(i.signature.is_(None)).order_by(i.id).limit(BATCH)).all()
    for row in rows:
        sign(session, row)
    return len(rows)


def candidates(session: Session) -> Candidates:
    """The signatures seen last, at most `MAX_TEXTS`, in an order of their own: the same rows give the same groups."""
    s, c = tables.Signature, tables.Cluster
    newest = session.execute(
        select(s.key, s.text, s.cluster_id).order_by(s.last_seen.desc(), s.key).limit(MAX_TEXTS)
    ).all()
    rows = sorted(newest, key=lambda row: row.key)
    kept = session.scalars(select(c.id).where(c.name.is_not(None) | c.muted_at.is_not(None)))
    return Candidates({r.key: r.text for r in rows}, {r.key: r.cluster_id for r in rows}, frozenset(kept))


def gather(session: Session, moves: Mapping[str, int], now: datetime) -> int:
    """Put signatures into the clusters that they belong to, and let empty ones go; how many moved."""
    moved = 0
    for key, cluster_id in moves.items():
        row = session.get(tables.Signature, key)
        if row is not None and row.cluster_id != cluster_id and session.get(tables.Cluster, cluster_id) is not None:
            row.cluster_id = cluster_id
            moved += 1
    session.flush()
    c, s = tables.Cluster, tables.Signature
    untouched = c.name.is_(None), c.muted_at.is_(None)
    session.execute(delete(c).where(*untouched, c.id.not_in(select(s.cluster_id))))
    if moved:
        touch(session, "cluster", "", at=now)
    return moved


def rename(session: Session, cluster_id: int, name: str | None, by: str, now: datetime) -> None:
    """Name a cluster; None takes the name away. Raises NoSuchCluster."""
    row = _held(session, cluster_id)
    row.name, row.named_by = (name, by) if name else (None, None)
    touch(session, "cluster", cluster_id, at=now)


def mute(session: Session, cluster_id: int, reason: str, by: str, now: datetime) -> None:
    """Leave it out of lists from now on, for a reason; it goes on counting. Raises NoSuchCluster."""
    row = _held(session, cluster_id)
    row.muted_at, row.muted_by, row.mute_reason = now, by, reason
    touch(session, "cluster", cluster_id, at=now)


def unmute(session: Session, cluster_id: int, now: datetime) -> None:
    """Show it again. Raises NoSuchCluster."""
    row = _held(session, cluster_id)
    row.muted_at = row.muted_by = row.mute_reason = None
    touch(session, "cluster", cluster_id, at=now)


def _held(session: Session, cluster_id: int) -> tables.Cluster:
    row = session.get(tables.Cluster, cluster_id, with_for_update=True)
    if row is None:
        raise NoSuchCluster(f"there is no cluster {cluster_id}: it may have gone into another one")
    return row
