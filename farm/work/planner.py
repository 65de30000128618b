"""The planner's loop: what waits, on which device it may start, and why the rest waits on.

`farm.domain.scheduling` decides, over an index that is kept in step with what changes (farm.work.mirror) and built
anew from time to time. This module carries the decisions out and writes down what people look at: the reasons of those
who come next, and when a job that came is expected to start. A grant is one transaction: lease, attempt and the
workflow's place in its host's queue, or nothing at all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from farm.domain import scheduling
from farm.domain.devices import is_silent
from farm.domain.leases import HEARTBEAT, LeaseVerdict
from farm.domain.outcomes import State
from farm.domain.scheduling import ahead, why
from farm.store import hosts, leases, reservations, tables
from farm.store.bus import Change, changes_after, touch
from farm.store.db import Database
from farm.store.locks import hold_job
from farm.work.mirror import Heard, Mirror
from farm.work.settings import WorkSettings
from farm.work.starting import Enqueue, give_up, start_attempt
from farm.work.verdict import close_if_host_is_lost

__all__ = ["Enqueue", "Planner"]

log = logging.getLogger(__name__)

#: The reasons of so many who come next are written down; the others' are told when asked for (`farm why`).
REASONS = 200
#: Where more than `MANY` wait, reasons are written at most so often, seconds: telling them costs more than deciding.
MANY, REASONS_S = 1000, 5.0
#: Telling reasons takes at most one part in so many of the time: each grant changes the place of all who wait behind.
TELLING = 20
#: Ends of leases and silent hosts are looked for at most so often, seconds.
WATCH_S = 0.25
#: Changes are taken in at most so often, seconds.
TOGETHER_S = 0.05
#: While something waits others get so many times as much of the processor as passes, in pauses of at most so long.
OTHERS, PAUSE_S = 4, 0.15
#: Everything is read anew so often, seconds: what was missed is found then.
REBUILD_S = 60.0
#: Starts are foretold at most so often, seconds, and so far ahead: steps times groups of like jobs.
FORETELL_S = 3.0
FORETOLD = 500_000


class Planner:
    """Wakes on every change that could matter and by a slow tick; one per farm."""

    def __init__(self, db: Database, settings: WorkSettings, enqueue: Enqueue) -> None:
        self._db, self._settings, self._enqueue = db, settings, enqueue
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # over _heard
        self._heard = Heard()
        self._thread: threading.Thread | None = None
        self._since = db.now()
        self._mirror = Mirror(self._since)
        self._seen_id: int | None = None  # every change up to this one is known
        self._beyond: set[int] = set()  # those above it that are known already
        self._told: dict[scheduling.Key, str] = {}  # reasons as last written
        self._told_at = self._tell_from = float("-inf")
        self._silent: dict[str, bool] = {}  # by host, as last announced
        self._watched_at = float("-inf")
        self._built_at = self._foretold_at = datetime.min.replace(tzinfo=self._since.tzinfo)

    def start(self) -> None:
        self._since = self._db.now()
        self._silent.clear()  # whoever looked before does not know how the hosts are now
        self._doubt()
        self._stopping.clear()
        self._db.bus.listen(self._hear)
        self._thread = threading.Thread(target=self._loop, name="planner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._db.bus.unlisten(self._hear)
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(30)

    def _hear(self, changes: Sequence[Change]) -> None:
        with self._lock:
            concerned = self._heard.take(changes)
            if self._seen_id is not None and self._db.is_sqlite:
                self._beyond.update(change.id for change in changes)
                while self._seen_id + 1 in self._beyond:
                    self._seen_id += 1
                    self._beyond.discard(self._seen_id)
        if concerned:
            self._wake.set()

    def _doubt(self) -> None:
        with self._lock:
            self._heard.everything = True

    def _loop(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._pass()
            except Exception:  # the next pass begins from what the database says then
                log.exception("a planning pass failed; trying again at the next change")
                self._doubt()
                self._stopping.wait(0.5)
            took = time.monotonic() - began
            tick_s = self._settings.planner_tick_s
            due_s = max(0.0, self._tell_from - time.monotonic()) if self._mirror.index.jobs else tick_s
            tick_s = min(tick_s, FORETELL_S) if self._mirror.arrived else tick_s  # who came is to be foretold
            self._wake.wait(min(tick_s, due_s) if due_s > 0 else tick_s)
            # What changes within a moment is taken in together; others get most of the processor: who frees a device
            # serves who waits, and would be held up by passes that look for what is not there.
            self._stopping.wait(min(max(OTHERS * took, TOGETHER_S), PAUSE_S) if self._mirror.index.jobs else TOGETHER_S)
            self._wake.clear()

    def once(self) -> scheduling.Decisions:
        """One pass from what the database says, whatever was known before."""
        self._doubt()
        self._tell_from = float("-inf")
        return self._pass()

    def _pass(self) -> scheduling.Decisions:
        """Expire leases, take in what changed, decide, carry it out, write down why the rest waits."""
        if self._db.is_sqlite:
            self._look()
        with self._lock:
            heard, self._heard = self._heard, Heard()
        if heard.everything or time.monotonic() - self._watched_at >= WATCH_S:
            self._watched_at = time.monotonic()
            self._watch_hosts()
            self._expire()
        with self._db.read() as session:
            now = self._db.now(session)
            heard.everything |= now - self._built_at >= timedelta(seconds=REBUILD_S)
            self._mirror.catch_up(session, now, heard)
            if heard.everything:
                self._built_at = now
        made = scheduling.decide(self._mirror.index, timedelta(seconds=self._settings.give_up_s))
        for grant in made.grants:
            self._grant(grant)
        self._write_down(made)
        self._foretell(now)
        return made

    def _look(self) -> None:
        """What other processes have changed: a file wakes nobody, and a command may have written to it."""
        with self._db.read() as session:
            newest = self._db.newest_change(session)
            if self._seen_id is None or self._seen_id >= newest:
                self._seen_id = newest if self._seen_id is None else self._seen_id
                return
            found = changes_after(session, self._seen_id)
        self._hear(found)
        with self._lock:
            self._seen_id = max(self._seen_id, found[-1].id if found else 0)
            self._beyond = {ident for ident in self._beyond if ident > self._seen_id}

    def _watch_hosts(self) -> None:
        """A host that falls silent cannot say so itself: it is announced here, and so is its coming back."""
        with self._db.read() as session:
            now = self._db.now(session)
            found = {
                h.name: is_silent(hosts.alive_at(session, h.name) or h.seen_at, now)
                for h in session.scalars(select(tables.Host))
            }
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
            # nobody could renew while the one who keeps the clock was away
            trusted = now - (self._db.up_since(session) or self._since) >= HEARTBEAT
            expired = leases.expire(session, now, trust_heartbeat=trusted)
            leases.warn(session, now)
            reservations.expire(session, now)
        for lease, verdict in expired:
            log.warning("lease %d of device %d (%s): %s", lease.id, lease.device_id, lease.holder, verdict.value)
            if verdict is LeaseVerdict.SILENT:
                with self._db.session() as session:  # of its own: a run is locked before a lease, never after it
                    close_if_host_is_lost(session, lease, now)

    def _grant(self, grant: scheduling.Grant) -> None:
        try:
            with self._db.session() as session:
                now = self._db.now(session)
                if grant.kind == "reservation":
                    reservations.begin(session, grant.id, grant.device_id, now)
                    return
                job = hold_job(session, grant.id)
                if job.state != State.QUEUED.value:
                    return  # cancelled since it was read, or another planner was faster
                job.estimate_s = grant.estimate_s
                start_attempt(session, job, grant.device_id, now, self._settings, self._enqueue)
        except leases.AlreadyHeld as error:
            log.info("%s %d: %s; it waits on", grant.kind, grant.id, error)
            self._doubt()
            self._wake.set()
        except Exception:
            self._doubt()  # the index takes it for started
            raise

    def _write_down(self, made: scheduling.Decisions) -> None:
        """The reasons that changed, of those who come next, and the ends of those who are given up."""
        began = time.monotonic()
        fresh = self._fresh_reasons() if began >= self._tell_from else []
        if not fresh and not made.give_ups:
            return
        self._carry_down(fresh, made)
        ended = time.monotonic()
        self._tell_from = ended + TELLING * (ended - began)

    def _carry_down(self, fresh: list[tuple[scheduling.Key, str]], made: scheduling.Decisions) -> None:
        with self._db.session() as session:
            now = self._db.now(session)
            for (kind, ident), words in fresh:
                _note_reason(session, kind, ident, words, now)
            for over in made.give_ups:
                job = session.get_one(tables.Job, over.id)
                if job.state == State.QUEUED.value:
                    give_up(session, job, over.reason, now)

    def _fresh_reasons(self) -> list[tuple[scheduling.Key, str]]:
        if len(self._mirror.index.jobs) > MANY and time.monotonic() - self._told_at < REASONS_S:
            return []
        told = {job.key: words for job, words in why.reasons(self._mirror.index, REASONS)}
        told |= {("job", entry.job_id): entry.reason for entry in self._mirror.broken.values()}
        before, self._told, self._told_at = self._told, told, time.monotonic()
        return [(key, words) for key, words in told.items() if before.get(key) != words or key in self._mirror.arrived]

    def _foretell(self, now: datetime) -> None:
        """When those who came lately are expected to start; the first figure is kept, to judge estimates by."""
        if not self._mirror.arrived or now - self._foretold_at < timedelta(seconds=FORETELL_S):
            return
        self._foretold_at = now
        wanted = {key for key in self._mirror.arrived if key[0] == "job" and key in self._mirror.index.jobs}
        self._mirror.arrived.clear()
        steps = max(20, FORETOLD // (1 + len(self._mirror.index.all_groups())))
        found = ahead.estimated_starts(self._mirror.index, wanted, steps=min(steps, 2000)) if wanted else {}
        if not found:
            return
        job = tables.Job
        with self._db.session() as session:
            for (_, ident), start in found.items():
                session.execute(
                    update(job)
                    .where(job.id == ident, job.state == State.QUEUED.value)
                    .values(
                        estimated_start_at=start,
                        first_estimated_start_at=func.coalesce(job.first_estimated_start_at, start),
                        estimate_s=self._mirror.index.jobs["job", ident].estimate_s,
                    )
                )


def _note_reason(session: Session, kind: str, ident: int, words: str, now: datetime) -> None:
    if kind == "reservation":
        reservations.note_reason(session, ident, words, now)
        return
    job = session.get_one(tables.Job, ident)
    if job.state == State.QUEUED.value and job.wait_reason != words:
        job.wait_reason = words
        touch(session, "job", job.id, at=now, run_id=job.run_id)
