"""Deployment failure rate: by bundle, device model and cause, over time, and how well the precheck foresees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.deployments import Deployment
from farm.domain.outcomes import Phase
from farm.domain.precheck import COVERED, passed
from farm.domain.rates import Rate
from farm.store import tables
from farm.store.reads.shared import device_refs

#: Most attempts that are counted, the newest.
MAX_ATTEMPTS = 20_000
#: Most rows of one list; the rest have fewer attempts.
MAX_ROWS = 50


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts of one bundle, device model or day: how many failed to deploy or load. `key`: of its page."""

    name: str
    key: str
    rate: Rate


@dataclass(frozen=True, slots=True)
class CauseShare:
    """Of all attempts that say something of their deployment, those which failed of `cause`."""

    cause: str
    rate: Rate


@dataclass(frozen=True, slots=True)
class Deployments:
    """Since `since`. `covered`: of the attempts whose precheck passed, those that failed of a cause which it covers.
    `counted`: so many attempts are in it; with `more`, older ones of that time are not."""

    since: datetime
    counted: int
    more: bool
    overall: Rate
    causes: tuple[CauseShare, ...]
    bundles: tuple[Group, ...]
    models: tuple[Group, ...]
    days: tuple[Group, ...]
    covered: Rate


@dataclass(frozen=True, slots=True)
class _Row:
    deployment: Deployment
    bundle: str
    bundle_hash: str
    model: str
    day: str
    passed_precheck: bool


def deployments(session: Session, now: datetime, window: timedelta, bundle: str | None = None) -> Deployments:
    """The last `window`; `bundle`: a name or a hash, None for all. A constant number of queries."""
    since = now - window
    rows, more = _rows(session, since, bundle)
    failed = Counter(row.deployment.value for row in rows if row.deployment is not Deployment.OK)
    checked = [row for row in rows if row.passed_precheck]
    return Deployments(
        since=since,
        counted=len(rows),
        more=more,
        overall=_rate(rows),
        causes=tuple(CauseShare(cause, Rate(many, len(rows))) for cause, many in failed.most_common()),
        bundles=_groups(rows, lambda row: (row.bundle, row.bundle_hash)),
        models=_groups(rows, lambda row: (row.model, row.model)),
        days=tuple(sorted(_groups(rows, lambda row: (row.day, row.day), most=400), key=lambda group: group.key)),
        covered=Rate(sum(row.deployment in COVERED for row in checked), len(checked)),
    )


def _rows(session: Session, since: datetime, bundle: str | None) -> tuple[list[_Row], bool]:
    a, j, r, b, p = tables.Attempt, tables.Job, tables.Run, tables.Bundle, tables.AttemptPhase
    query = (
        select(a.deployment, a.device_id, a.ended_at, b.hash, b.name, b.version, p.detail)
        .join(j, j.id == a.job_id)
        .join(r, r.id == j.run_id)
        .join(b, b.hash == r.bundle_hash)
        .outerjoin(p, (p.attempt_id == a.id) & (p.phase == Phase.PRECHECK.value))
        .where(a.deployment.is_not(None), a.ended_at >= since)
        .order_by(a.ended_at.desc())
        .limit(MAX_ATTEMPTS + 1)
    )
    if bundle is not None:
        query = query.where((b.name == bundle) | (b.hash == bundle))
    found = session.execute(query).all()
    devices = device_refs(session, {row.device_id for row in found})
    known = {word.value for word in Deployment}
    rows = [
        _Row(
            Deployment(row.deployment),
            f"{row.name} {row.version}",
            row.hash,
            devices[row.device_id].model,
            f"{row.ended_at:%Y-%m-%d}",
            passed((row.detail or {}).get("checks")),
        )
        for row in found[:MAX_ATTEMPTS]
        if row.deployment in known
    ]
    return rows, len(found) > MAX_ATTEMPTS


def _groups(rows: Iterable[_Row], of: Callable[[_Row], tuple[str, str]], most: int = MAX_ROWS) -> tuple[Group, ...]:
    """Those with most attempts first."""
    found: dict[str, tuple[str, list[_Row]]] = {}
    for row in rows:
        name, key = of(row)
        found.setdefault(key, (name, []))[1].append(row)
    groups = [Group(name, key, _rate(inside)) for key, (name, inside) in found.items()]
    return tuple(sorted(groups, key=lambda group: (-group.rate.total, group.name))[:most])


def _rate(rows: list[_Row]) -> Rate:
    return Rate(sum(row.deployment is not Deployment.OK for row in rows), len(rows))
