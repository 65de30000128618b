"""Hosts that nobody hears any more: declared lost, and what ran there goes on elsewhere.

A host is declared lost once it has been silent for too long (the server that holds its channel does so at once when
that closes). Its attempts are closed only after their leases have ended: until then a runner that is merely cut off may
still work; by then it has stopped by itself (`FENCE` is shorter than `HEARTBEAT`). The job keeps its place in the
queue. The device stays taken until the host is back and has cleaned it, or a person says so.
"""

from __future__ import annotations

import logging
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.causes import Cause
from farm.domain.devices import STALE_AFTER
from farm.domain.leases import HEARTBEAT
from farm.domain.outcomes import Outcome, Phase
from farm.store import hosts, tables
from farm.store.db import Database
from farm.store.locks import hold_attempt
from farm.work.step import set_outcome
from farm.work.verdict import close

log = logging.getLogger(__name__)


class LostHosts:
    """One per farm, beside the planner. `once` is cheap when nothing is lost."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._began: datetime | None = None

    def begin(self) -> None:
        """A new watch: what fell silent while nobody watched has a moment to be heard of again."""
        self._began = None

    def once(self) -> list[int]:
        """Declare hosts lost, and close their attempts whose leases have ended; the ids of those attempts."""
        with self._db.read() as session:
            now = self._db.now(session)
            self._began = self._began or now
            watched = now - self._began
            silent = hosts.fallen_silent(session, now) if watched > STALE_AFTER else []
            over = _over(session, now) if watched > HEARTBEAT or not self._db.is_sqlite else []
        for name in silent:
            self._lose(name)
        return [attempt_id for attempt_id in over if self._close(attempt_id)]

    def _lose(self, name: str) -> None:
        with self._db.session() as session:
            now = self._db.now(session)
            row = hosts.hold(session, name)
            if row.seen_at is None or now - row.seen_at > STALE_AFTER:  # not heard of while we waited for the row
                hosts.lose(session, name, now)
                log.warning("host %s is lost: not heard of since %s", name, row.seen_at)

    def _close(self, attempt_id: int) -> bool:
        with self._db.session() as session:
            now = self._db.now(session)
            attempt = hold_attempt(session, attempt_id)
            host = session.get_one(tables.Host, attempt.host)
            if attempt.phase == Phase.DONE.value or host.lost_at is None:
                return False
            words = f"its host {attempt.host} was lost: not heard of for too long"
            set_outcome(attempt, Outcome.INFRA_ERROR, words, Cause.HOST_LOST)
            close(session, attempt, now)
            log.warning("attempt %d is over: %s", attempt_id, words)
            return True


def _over(session: Session, now: datetime) -> list[int]:
    """Attempts on lost hosts that are not done, and whose holder has been silent for longer than any lease."""
    attempt, lease, host = tables.Attempt, tables.Lease, tables.Host
    query = (
        select(attempt.id)
        .join(host, host.name == attempt.host)
        .join(lease, (lease.attempt_id == attempt.id) & (lease.token == attempt.token))
        .where(attempt.phase != Phase.DONE.value, host.lost_at.is_not(None))
        .where(lease.released_at.is_not(None), lease.heartbeat_by <= now)
        .order_by(attempt.id)
    )
    return list(session.scalars(query))
