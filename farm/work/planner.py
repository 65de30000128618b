"""The planner's loop: what waits, on which device it may start, and why the rest waits on.

`farm.domain.scheduling.plan` decides; this module reads what it needs, carries its decisions out, and writes down every
reason. A grant is one transaction: lease, attempt and the workflow's place in its host's queue, or nothing at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain import scheduling
from farm.domain.devices import is_silent
from farm.domain.jobs import job_outcome, limits_of, settle_of
from farm.domain.leases import HARD_END, HEARTBEAT, LeaseVerdict
from farm.domain.outcomes import Outcome, Phase, State
from farm.domain.selectors import parse
from farm.store import devices, leases, reservations, runs, tables
from farm.store.bus import Change, touch
from farm.store.db import Database
from farm.store.locks import hold_job
from farm.work.admission import selector_of
from farm.work.settings import WorkSettings
from farm.work.verdict import close_if_host_is_lost

log = logging.getLogger(__name__)

#: Puts an attempt's workflow into its host's queue, inside the session's own transaction.
Enqueue = Callable[[Session, tables.Attempt], None]
#: Changes that can make a waiting job startable, or a reason stale.
_TOPICS = frozenset({"run", "job", "device", "attempt", "reservation"})


class Planner:
    """Wakes on every change that could matter and by a slow tick; one per farm."""

    def __init__(self, db: Database, settings: WorkSettings, enqueue: Enqueue) -> None:
        self._db, self._settings, self._enqueue = db, settings, enqueue
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._since = db.now()
        self._silent: dict[str, bool] = {}  # by host, as last announced

    def start(self) -> None:
        self._since = self._db.now()
        self._silent.clear()  # whoever looked before does not know how the hosts are now
        self._stopping.clear()
        self._db.bus.listen(self._heard)
        self._thread = threading.Thread(target=self._loop, name="planner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._db.bus.unlisten(self._heard)
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(30)

    def _heard(self, changes: Sequence[Change]) -> None:
        if any(c.topic in _TOPICS for c in changes):
            self._wake.set()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._settings.planner_tick_s)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                self.once()
            except Exception:  # the next pass begins from what the database says then
                log.exception("a planning pass failed; trying again at the next change")
                self._stopping.wait(0.5)

    def once(self) -> scheduling.Plan:
        """One pass: expire leases, plan, grant, and write down why the rest waits."""
        self._watch_hosts()
        self._expire()
        with self._db.read() as session:
            now = self._db.now(session)
            waiting, broken = _waiting(session)
            fleet = devices.facts(session) if waiting or broken else []
        made = scheduling.plan(now, fleet, waiting, give_up_after=timedelta(seconds=self._settings.give_up_s))
        for grant in made.grants:
            self._grant(grant)
        if made.waits or made.give_ups or broken:
            self._write_down(made, broken)
        return made

    def _watch_hosts(self) -> None:
        """A host that falls silent cannot say so itself: it is announced here, and so is its coming back."""
        with self._db.read() as session:
            now = self._db.now(session)
            found = {h.name: is_silent(h.seen_at, now) for h in session.scalars(select(tables.Host))}
        changed = [name for name, silent in found.items() if self._silent.get(name) is not silent]
        if not changed:
            return
        with self._db.session() as session:
            now = self._db.now(session)
            for name in changed:
                touch(session, "host", name, at=now)
        self._silent = found

    def _expire(self) -> None:
        with self._db.read() as session:
            now = self._db.now(session)
            if not (leases.any_over(session, now) or reservations.any_expired(session, now)):
                return
        with self._db.session() as session:
            now = self._db.now(session)
            trusted = now - self._since >= HEARTBEAT  # nobody could renew while the server was away
            for lease, why in leases.expire(session, now, trust_heartbeat=trusted):
                log.warning("lease %d of device %d (%s): %s", lease.id, lease.device_id, lease.holder, why.value)
                if why is LeaseVerdict.SILENT:
                    close_if_host_is_lost(session, lease, now)
            leases.warn(session, now)
            reservations.expire(session, now)

    def _grant(self, grant: scheduling.Grant) -> None:
        try:
            with self._db.session() as session:
                job = hold_job(session, grant.job_id)
                if job.state != State.QUEUED.value:
                    return  # cancelled since it was read, or another planner was faster
                start_attempt(session, job, grant.device_id, self._db.now(session), self._settings, self._enqueue)
        except leases.AlreadyHeld as error:
            log.info("job %d: %s; it waits on", grant.job_id, error)

    def _write_down(self, made: scheduling.Plan, broken: Sequence[_Broken]) -> None:
        with self._db.session() as session:
            now = self._db.now(session)
            for job_id, reason in [(w.job_id, w.reason) for w in made.waits] + [(b.job_id, b.reason) for b in broken]:
                job = session.get_one(tables.Job, job_id)
                if job.state == State.QUEUED.value and job.wait_reason != reason:
                    job.wait_reason = reason
                    touch(session, "job", job.id, at=now, run_id=job.run_id)
            for over in made.give_ups:
                job = session.get_one(tables.Job, over.job_id)
                if job.state == State.QUEUED.value:
                    _give_up(session, job, over.reason, now)


@dataclass(frozen=True, slots=True)
class _Broken:
    """A job that cannot be planned: it is shown, and does not stop the others."""

    job_id: int
    reason: str


def _waiting(session: Session) -> tuple[list[scheduling.WaitingJob], list[_Broken]]:
    rows = runs.waiting_jobs(session)
    last = runs.last_attempts(session, [job.id for job, _ in rows])
    waiting: list[scheduling.WaitingJob] = []
    broken: list[_Broken] = []
    for job, run in rows:
        try:
            waiting.append(_waiting_job(session, job, run, last.get(job.id)))
        except Exception as error:
            broken.append(_Broken(job.id, f"cannot be planned: {error}"))
    return waiting, broken


def _waiting_job(
    session: Session, job: tables.Job, run: tables.Run, last: tables.Attempt | None
) -> scheduling.WaitingJob:
    bundle = session.get_one(tables.Bundle, run.bundle_hash)
    pack = session.get_one(tables.SuitePack, run.pack_hash)
    needs = dict.fromkeys(pack.manifest["suites"][s].get("needs") or "" for s in job.suites)
    wants = [parse(job.selector), *(parse(n) for n in needs if n), selector_of("abi", list(bundle.manifest["files"]))]
    return scheduling.WaitingJob(
        id=job.id,
        klass=job.klass,
        queued_at=job.queued_at,
        wants=tuple(wants),
        pinned=job.device_id,
        avoid=frozenset(job.avoid),
        not_before=job.not_before,
        bundle=run.bundle_hash,
        lost_at=last.ended_at if last is not None else None,
    )


def start_attempt(
    session: Session, job: tables.Job, device_id: int, now: datetime, settings: WorkSettings, enqueue: Enqueue
) -> tables.Attempt:
    """Lease, attempt and queue entry, all in the session's transaction. Raises AlreadyHeld: roll it back."""
    run = session.get_one(tables.Run, job.run_id)
    pack = session.get_one(tables.SuitePack, run.pack_hash).manifest
    last = runs.last_attempts(session, [job.id]).get(job.id)
    limits = limits_of(pack, job.suites, settings.suite_limit_s, settings.silence_limit_s)
    settle_s = settle_of(pack, job.suites).get("timeout_s", settings.settle_limit_s)
    hard_end = now + min(HARD_END, timedelta(seconds=limits["attempt_s"] + settle_s + 1800))
    attempt = tables.Attempt(
        job_id=job.id,
        number=1 if last is None else last.number + 1,
        device_id=device_id,
        host=session.get_one(tables.Device, device_id).host,
        token=0,
        phase=Phase.PLANNED.value,
        created_at=now,
        workflow_id=f"job-{job.id}-attempt-{1 if last is None else last.number + 1}",
        waiting_for="its host to take it up",
    )
    session.add(attempt)
    session.flush()
    holder = f"attempt:{attempt.id}"
    who = {"team": run.team, "user": run.created_by}
    attempt.token = leases.grant(session, device_id, holder, attempt.id, now, hard_end, **who).token
    job.state, job.wait_reason = State.RUNNING.value, None
    enqueue(session, attempt)
    touch(session, "job", job.id, at=now, run_id=run.id, device_id=device_id)
    touch(session, "attempt", attempt.id, at=now, run_id=run.id, device_id=device_id)
    session.flush()
    runs.settle_run(session, run.id, now)
    return attempt


def _give_up(session: Session, job: tables.Job, reason: str, now: datetime) -> None:
    ends = runs.attempt_ends(session, job.id)
    outcome = job_outcome(ends) if ends else Outcome.DEVICE_LOST
    left = len(runs.known_tests(session, job.id) - {t.test for e in ends for t in e.tests if t.finished()})
    tries = "1 try" if len(ends) == 1 else f"{len(ends)} tries"
    tail = f"; {left} test{'s were' if left != 1 else ' was'} not finished" if left else ""
    runs.end_job(session, job, outcome, f"{reason} after {tries}{tail}", now)
