"""Clusters for reading: how often, where, since when, with how sure a rate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from farm.domain.rates import Rate
from farm.store import tables
from farm.store.reads.shared import DeviceRef, IncidentRow, device_refs, incident_rows

#: Most clusters on a page, incidents of one, and devices and bundles named.
MAX_CLUSTERS = 200
MAX_INCIDENTS = 50
MAX_NAMED = 50
#: The rate is that of the attempts which ended within so long.
WINDOW = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster. `title`: of the signature with most incidents; `incidents` counts all of them, `rate` is the share
    of attempts that had one, of those that ended within `WINDOW` and those that have one already and still run."""

    id: int
    name: str | None
    named_by: str | None
    title: str
    klass: str
    signatures: int
    incidents: int
    attempts: int
    devices: int
    bundles: int
    first_seen: datetime
    last_seen: datetime
    rate: Rate
    muted_at: datetime | None
    muted_by: str | None
    mute_reason: str | None


@dataclass(frozen=True, slots=True)
class SignatureRow:
    key: str
    title: str
    basis: str
    incidents: int
    first_seen: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class BundleCount:
    hash: str
    name: str
    version: str
    incidents: int


@dataclass(frozen=True, slots=True)
class ClusterDetail:
    """`devices` and `bundles` with how many incidents on each, most first; `incidents` the newest."""

    cluster: ClusterRow
    signatures: tuple[SignatureRow, ...]
    devices: tuple[tuple[DeviceRef, int], ...]
    bundles: tuple[BundleCount, ...]
    incidents: tuple[IncidentRow, ...]


def clusters(session: Session, now: datetime, *, muted: bool = False) -> list[ClusterRow]:
    """Clusters with incidents, those seen last first; muted ones only when asked for."""
    c, s = tables.Cluster, tables.Signature
    last = func.max(s.last_seen).label("last")
    query = select(c.id).join(s, s.cluster_id == c.id).group_by(c.id).order_by(last.desc(), c.id.desc())
    if not muted:
        query = query.where(c.muted_at.is_(None))
    return _rows(session, list(session.scalars(query.limit(MAX_CLUSTERS))), now)


def cluster(session: Session, cluster_id: int, now: datetime) -> ClusterDetail | None:
    """One cluster in full; None when there is none, or nothing in it any more."""
    rows = _rows(session, [cluster_id], now)
    if not rows:
        return None
    return ClusterDetail(
        rows[0],
        _signatures(session, cluster_id),
        _devices(session, cluster_id),
        _bundles(session, cluster_id),
        _incidents(session, cluster_id),
    )


def of_attempt(session: Session, attempt_id: int) -> dict[str, tuple[int, str | None]]:
    """Signature -> (cluster, its name) of an attempt's incidents."""
    i, s, c = tables.Incident, tables.Signature, tables.Cluster
    query = select(s.key, c.id, c.name).join(c, c.id == s.cluster_id).join(i, i.signature == s.key)
    return {row.key: (row.id, row.name) for row in session.execute(query.where(i.attempt_id == attempt_id).distinct())}


def _rows(session: Session, ids: Collection[int], now: datetime) -> list[ClusterRow]:
    c, s, i = tables.Cluster, tables.Signature, tables.Incident
    counted = (
        select(
            s.cluster_id,
            func.sum(i.count).label("incidents"),
            func.count(i.attempt_id.distinct()).label("attempts"),
            func.count(i.device_id.distinct()).label("devices"),
            func.count(tables.Run.bundle_hash.distinct()).label("bundles"),
            func.min(i.at).label("first"),
            func.max(i.at).label("last"),
        )
        .join(i, i.signature == s.key)
        .outerjoin(tables.Attempt, tables.Attempt.id == i.attempt_id)
        .outerjoin(tables.Job, tables.Job.id == tables.Attempt.job_id)
        .outerjoin(tables.Run, tables.Run.id == tables.Job.run_id)
        .where(s.cluster_id.in_(ids))
        .group_by(s.cluster_id)
    )
    counts = {row.cluster_id: row for row in session.execute(counted)}
    named = {row.id: row for row in session.scalars(select(c).where(c.id.in_(ids)))}
    titles = _titles(session, ids)
    rates = _rates(session, ids, now)
    return [
        ClusterRow(
            id_,
            named[id_].name,
            named[id_].named_by,
            *titles[id_],
            int(counts[id_].incidents),
            counts[id_].attempts,
            counts[id_].devices,
            counts[id_].bundles,
            counts[id_].first,
            counts[id_].last,
            rates[id_],
            named[id_].muted_at,
            named[id_].muted_by,
            named[id_].mute_reason,
        )
        for id_ in ids
        if id_ in counts
    ]


def _titles(session: Session, ids: Collection[int]) -> dict[int, tuple[str, str, int]]:
    """Title and class of the signature with most incidents, and how many signatures there are."""
    found: dict[int, tuple[str, str, int]] = {}
    for row in session.execute(_by_signature().where(tables.Signature.cluster_id.in_(ids))):
        title, klass, many = found.get(row.cluster_id, (row.title, row.klass, 0))
        found[row.cluster_id] = (title, klass, many + 1)
    return found


def _by_signature() -> Select[int, str, str, str, str, int, datetime, datetime]:
    s, i = tables.Signature, tables.Incident
    many = func.coalesce(func.sum(i.count), 0)
    return (
        select(s.cluster_id, s.key, s.title, s.klass, s.basis, many.label("incidents"), s.first_seen, s.last_seen)
        .outerjoin(i, i.signature == s.key)
        .group_by(s.key)
        .order_by(many.desc(), s.first_seen, s.key)
    )


def _rates(session: Session, ids: Collection[int], now: datetime) -> dict[int, Rate]:
    """Of the attempts that ended within `WINDOW`, those with an incident of each cluster.

    One that still runs and has the incident is counted too: whatever comes, it is one of those that had it.
    """
    a, s, i = tables.Attempt, tables.Signature, tables.Incident
    lately = a.ended_at >= now - WINDOW
    total = session.scalar(select(func.count()).select_from(a).where(lately)) or 0
    query = (
        select(s.cluster_id, a.ended_at.is_(None).label("runs"), func.count(i.attempt_id.distinct()))
        .join(i, i.signature == s.key)
        .join(a, a.id == i.attempt_id)
        .where(s.cluster_id.in_(ids), lately | a.ended_at.is_(None))
        .group_by(s.cluster_id, a.ended_at.is_(None))
    )
    hits = {(row[0], bool(row[1])): row[2] for row in session.execute(query)}
    running = {id_: hits.get((id_, True), 0) for id_ in ids}
    return {id_: Rate(min(hits.get((id_, False), 0), total) + running[id_], total + running[id_]) for id_ in ids}


def _signatures(session: Session, cluster_id: int) -> tuple[SignatureRow, ...]:
    query = _by_signature().where(tables.Signature.cluster_id == cluster_id).limit(MAX_NAMED)
    return tuple(
        SignatureRow(row.key, row.title, row.basis, int(row.incidents), row.first_seen, row.last_seen)
        for row in session.execute(query)
    )


def _devices(session: Session, cluster_id: int) -> tuple[tuple[DeviceRef, int], ...]:
    s, i = tables.Signature, tables.Incident
    many = func.sum(i.count)
    query = select(i.device_id, many).join(s, s.key == i.signature).where(s.cluster_id == cluster_id)
    found = session.execute(query.group_by(i.device_id).order_by(many.desc(), i.device_id).limit(MAX_NAMED)).all()
    refs = device_refs(session, [device_id for device_id, _ in found])
    return tuple((refs[device_id], int(count)) for device_id, count in found)


def _bundles(session: Session, cluster_id: int) -> tuple[BundleCount, ...]:
    s, i, b = tables.Signature, tables.Incident, tables.Bundle
    many = func.sum(i.count)
    query = (
        select(b.hash, b.name, b.version, many)
        .select_from(i)
        .join(s, s.key == i.signature)
        .join(tables.Attempt, tables.Attempt.id == i.attempt_id)
        .join(tables.Job, tables.Job.id == tables.Attempt.job_id)
        .join(tables.Run, tables.Run.id == tables.Job.run_id)
        .join(b, b.hash == tables.Run.bundle_hash)
        .where(s.cluster_id == cluster_id)
        .group_by(b.hash, b.name, b.version)
        .order_by(many.desc(), b.hash)
        .limit(MAX_NAMED)
    )
    return tuple(BundleCount(row[0], row[1], row[2], int(row[3])) for row in session.execute(query))


def _incidents(session: Session, cluster_id: int) -> tuple[IncidentRow, ...]:
    s, i = tables.Signature, tables.Incident
    query = select(i).join(s, s.key == i.signature).where(s.cluster_id == cluster_id)
    rows = session.scalars(query.order_by(i.at.desc(), i.id.desc()).limit(MAX_INCIDENTS)).all()
    return incident_rows(rows, device_refs(session, {row.device_id for row in rows}))
