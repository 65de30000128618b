"""The queue as the planner sees it: rows → the values of `farm.domain.scheduling`.

Everything is read by columns and in few queries, since a farm may have tens of thousands of jobs waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.orm import Session

from farm.domain.holds import Hold, holding
from farm.domain.outcomes import State
from farm.domain.scheduling import Index, PlannedDevice, Shares, WaitingJob, build
from farm.domain.scheduling.order import UNKNOWN_S, Flow, clocks_of
from farm.domain.selector_terms import quoted
from farm.domain.selectors import Selector, parse
from farm.store import devices, durations, holds, reservations, tables

#: How far back the use of the farm counts.
REACH = timedelta(hours=24)
#: A holder that is past its expected end is taken to need so much longer, seconds.
_OVERDUE_S = 30.0

_parse = lru_cache(maxsize=4096)(parse)


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that cannot be planned: it is shown, and does not stop the others."""

    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas in force: teams and tokens with a limit of devices."""

    shares: Shares = field(default_factory=Shares)

    def accounts(self, team: str, token_id: int | None) -> tuple[str, ...]:
        """What a holder counts against: only what has a limit, so that jobs stay alike for the planner."""
        names = (f"team:{team}", *(() if token_id is None else (f"token:{token_id}",)))
        return tuple(name for name in names if name in self.shares.limits)


def limits(session: Session) -> Limits:
    """Weights and quotas of teams and tokens."""
    team, token = tables.Team, tables.Token
    teams = session.execute(select(team.name, team.weight, team.max_devices)).all()
    capped = {f"team:{name}": most for name, _, most in teams if most is not None}
    query = select(token.id, token.max_devices).where(token.max_devices.is_not(None), token.revoked_at.is_(None))
    capped |= {f"token:{ident}": most for ident, most in session.execute(query) if most is not None}
    return Limits(Shares({name: float(weight) for name, weight, _ in teams}, capped))


def index(session: Session, now: datetime) -> tuple[Index, list[Broken]]:
    """Everything that waits and every device, as rows say; and what cannot be planned."""
    quotas = limits(session)
    fleet = planned_devices(session, now, quotas)
    jobs, broken = waiting_jobs(session, quotas)
    wishes = waiting_reservations(session, now, quotas)
    usable = sum(1 for device in fleet if device.usable)
    clocks = clocks_of(_history(session, now), quotas.shares.weights, usable, now, REACH)
    return build(now, fleet, [*jobs, *wishes], quotas.shares, clocks), broken


def waiting_jobs(
    session: Session, quotas: Limits, *, jobs: Collection[int] = (), runs: Collection[int] = ()
) -> tuple[list[WaitingJob], list[Broken]]:
    """What waits for a device: everything, or what of these jobs and runs does."""
    job, run = tables.Job, tables.Run
    query = select(
        job.id, job.selector, job.device_id, job.suites, job.tests, job.klass, job.queued_at, job.not_before,
        job.avoid, run.team, run.token_id, run.bundle_hash, run.pack_hash,
    ).join(run, run.id == job.run_id).where(job.state == State.QUEUED.value)  # fmt: skip
    if jobs or runs:
        query = query.where(job.id.in_(list(jobs)) | job.run_id.in_(list(runs)))
    rows = session.execute(query.order_by(job.id)).all()
    reader = _Reader(session, rows)
    waiting, broken = [], []
    for row in rows:
        try:
            waiting.append(reader.job(row, quotas))
        except Exception as error:  # one bad row must not stop the pass for everyone
            broken.append(Broken(row.id, f"cannot be planned: {error}"))
    return waiting, broken


def waiting_reservations(
    session: Session, now: datetime, quotas: Limits, ids: Collection[int] | None = None
) -> list[WaitingJob]:
    """People's wishes (all, or these), as entries of class debug."""
    return [
        WaitingJob(
            id=wish.id,
            klass="debug",
            queued_at=wish.queued_at,
            wants=wish.wants,
            kind="reservation",
            team=wish.team,
            pinned=wish.pinned,
            not_before=wish.not_before,
            estimate_s=wish.lasts.total_seconds(),
            accounts=quotas.accounts(wish.team, wish.token_id),
        )
        for wish in reservations.waiting(session, now, ids)
    ]


def planned_devices(
    session: Session, now: datetime, quotas: Limits, ids: Collection[int] | None = None
) -> list[PlannedDevice]:
    """Devices (all, or these) with their holders and holds. Those of hosts that are out of use are left out."""
    device, lease, host = tables.Device, tables.Lease, tables.Host
    query = (
        select(device, lease, host)
        .join(host, host.name == device.host)
        .outerjoin(lease, (lease.device_id == device.id) & lease.ended_at.is_(None))
        .where(host.drained.is_(False))
        .order_by(device.id)
    )
    if ids is not None:
        query = query.where(device.id.in_(sorted(ids)))
    found = session.execute(query)
    rows: list[tuple[tables.Device, tables.Lease | None, tables.Host]] = [(row, held, its) for row, held, its in found]
    holders = _holders(session, [held.id for _, held, _ in rows if held is not None])
    standing = holds.in_force(session, now)
    return [_planned(*row, holders, standing, quotas, now) for row in rows]


@dataclass(frozen=True, slots=True)
class _Holder:
    team: str
    token_id: int | None
    ends: datetime | None  # expected
    run_id: int | None = None


def _planned(
    row: tables.Device,
    lease: tables.Lease | None,
    host: tables.Host,
    holders: Mapping[int, _Holder],
    standing: Sequence[Hold],
    quotas: Limits,
    now: datetime,
) -> PlannedDevice:
    more: dict[str, object] = {"used_s": row.used_s}
    hold = holding(standing, row.serial, row.host, row.pool)
    if hold is not None:
        more["hold"] = hold.words()
    holder = None if lease is None else holders.get(lease.id)
    if lease is not None:
        ends = lease.ends_at if holder is None or holder.ends is None else min(holder.ends, lease.ends_at)
        more["until"] = max(ends, now + timedelta(seconds=_OVERDUE_S)) if ends <= now else ends
        more["accounts"] = () if holder is None else quotas.accounts(holder.team, holder.token_id)
    return PlannedDevice.of(devices.fact(row, lease, holder.run_id if holder else None, host), now, **more)


def _holders(session: Session, lease_ids: Sequence[int]) -> dict[int, _Holder]:
    """Lease id → who holds it: a run's team and token, or a reservation's."""
    if not lease_ids:
        return {}
    lease, attempt, job, run, wish = tables.Lease, tables.Attempt, tables.Job, tables.Run, tables.Reservation
    open_ = lease.ended_at.is_(None)
    of_runs = (
        select(lease.id, lease.granted_at, job.estimate_s, run.team, run.token_id, run.id)
        .join(attempt, attempt.id == lease.attempt_id)
        .join(job, job.id == attempt.job_id)
        .join(run, run.id == job.run_id)
    )
    found = {
        ident: _Holder(team, token_id, at + timedelta(seconds=UNKNOWN_S if estimate is None else estimate), run_id)
        for ident, at, estimate, team, token_id, run_id in session.execute(of_runs.where(open_))
    }
    of_people = select(lease.id, wish.team, wish.token_id).join(wish, wish.lease_id == lease.id).where(open_)
    found |= {ident: _Holder(team, token_id, None) for ident, team, token_id in session.execute(of_people)}
    return found


def _history(session: Session, now: datetime) -> list[tuple[datetime, Flow, datetime, float]]:
    """What was granted lately: (when, team and class, since when it waited, seconds of device time)."""
    lease, attempt, job, run = tables.Lease, tables.Attempt, tables.Job, tables.Run
    query = (
        select(lease.granted_at, lease.ended_at, run.team, job.klass, job.queued_at, job.estimate_s)
        .join(attempt, attempt.id == lease.attempt_id)
        .join(job, job.id == attempt.job_id)
        .join(run, run.id == job.run_id)
        .where(lease.granted_at >= now - REACH)
        .order_by(lease.granted_at, lease.id)
    )
    made = []
    for granted_at, ended_at, team, klass, queued_at, estimate in session.execute(query):
        expected = UNKNOWN_S if estimate is None else estimate
        seconds = (ended_at - granted_at).total_seconds() if ended_at is not None else expected
        made.append((granted_at, (team, klass), queued_at, seconds))
    return made


class _Reader:
    """What rows of jobs refer to, read once: needs of suites, ABIs of bundles, last tries, learnt durations."""

    def __init__(self, session: Session, rows: Sequence[Row[Any]]) -> None:
        self._session = session
        self._packs: dict[str, Mapping[str, Any]] = {}
        self._bundles: dict[str, tuple[str, Selector]] = {}
        self._retries = _last_ends(session, rows)
        self._types = {i: kind for i, kind in session.execute(select(tables.Device.id, tables.Device.type))}  # noqa: C416
        named = {str(test) for row in rows if row.tests for test in row.tests}
        self._learnt = durations.load(session, named)
        self._estimates: dict[tuple[object, ...], float | None] = {}

    def job(self, row: Row[Any], quotas: Limits) -> WaitingJob:
        name, abi = self._bundle(row.bundle_hash)
        wants = [_parse(row.selector), *(_parse(need) for need in self._needs(row.pack_hash, row.suites)), abi]
        return WaitingJob(
            id=row.id,
            klass=row.klass,
            queued_at=row.queued_at,
            wants=tuple(wants),
            team=row.team,
            pinned=row.device_id,
            avoid=frozenset(row.avoid),
            not_before=row.not_before,
            bundle=row.bundle_hash,
            lost_at=self._retries.get(row.id),
            estimate_s=self._estimate(row, name),
            accounts=quotas.accounts(row.team, row.token_id),
        )

    def _estimate(self, row: Row[Any], bundle: str) -> float | None:
        kind = self._types.get(row.device_id)
        key = (bundle, kind, tuple(row.suites), None if row.tests is None else tuple(row.tests))
        if key not in self._estimates:
            found = self._learnt.of_job(row.suites, row.tests, bundle, kind)
            self._estimates[key] = None if found is None else found.p50
        return self._estimates[key]

    def _needs(self, pack_hash: str, suites: Iterable[str]) -> list[str]:
        if pack_hash not in self._packs:
            self._packs[pack_hash] = self._session.get_one(tables.SuitePack, pack_hash).manifest
        found = self._packs[pack_hash]["suites"]
        return [need for need in dict.fromkeys(found[suite].get("needs") or "" for suite in suites) if need]

    def _bundle(self, bundle_hash: str) -> tuple[str, Selector]:
        if bundle_hash not in self._bundles:
            bundle = self._session.get_one(tables.Bundle, bundle_hash)
            abis = ", ".join(quoted(abi) for abi in bundle.manifest["files"])
            self._bundles[bundle_hash] = (bundle.name, _parse(f"abi in ({abis})"))
        return self._bundles[bundle_hash]


def _last_ends(session: Session, rows: Sequence[Row[Any]]) -> dict[int, datetime]:
    """Job id → when its newest attempt ended, of those among the waiting that were tried before."""
    attempt, job = tables.Attempt, tables.Job
    which: ColumnElement[bool] = job.state == State.QUEUED.value
    query = select(attempt.job_id, attempt.ended_at).join(job, job.id == attempt.job_id).where(which)
    ends = session.execute(query.order_by(attempt.job_id, attempt.number))
    return {job_id: ended for job_id, ended in ends if ended is not None}
