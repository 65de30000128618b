"""The scheduler's role: of any number of servers one plans; when it dies another takes over.

On PostgreSQL the role is an advisory lock, which ends with its holder's connection. Two planners for a moment (the
lock's connection broke, its holder has not noticed yet) do no harm: every grant is an INSERT under the unique index of
open leases, every other write looks at the row that it changes. On SQLite there is one process, and it has the role.
"""

from __future__ import annotations

import logging
import threading

from farm.store.db import Database
from farm.store.postgres import Lock
from farm.work.alerts import Alerts
from farm.work.grouping import Grouping
from farm.work.lost import LostHosts
from farm.work.planner import Planner
from farm.work.queue import Enqueue
from farm.work.settings import WorkSettings

log = logging.getLogger(__name__)

LOCK = "scheduler"


class Scheduler:
    """Planner, watch over lost hosts, alerts and clusters of incidents, for as long as this process has the role."""

    def __init__(self, db: Database, settings: WorkSettings, enqueue: Enqueue) -> None:
        self._settings = settings
        self._planner = Planner(db, settings, enqueue)
        self._lost = LostHosts(db)
        self._alerts = Alerts(db)
        self._grouping = Grouping(db)
        self._lock = None if db.is_sqlite else Lock(db.url, LOCK)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.leads = threading.Event()  # set while this process has the role

    def start(self) -> None:
        if self._lock is None:
            self._begin()
        self._thread = threading.Thread(target=self._loop, name="scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(40)
        self._end()
        if self._lock is not None:
            self._lock.release()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self.once()
            except Exception:
                log.exception("the scheduler's watch failed; trying again")
            self._stop.wait(self._settings.lead_every_s)

    def once(self) -> None:
        """Have the role, or find out who has; look after lost hosts when it is ours."""
        ours = self._lock is None or self._lock.take()
        if ours and not self.leads.is_set():
            log.info("this server plans from now on")
            self._begin()
        elif not ours and self.leads.is_set():
            log.warning("the scheduler's role is lost: another server takes it, or the database is away")
            self._end()
        if ours:
            self._lost.once()
            self._alerts.once()

    def _begin(self) -> None:
        self._lost.begin()
        self._planner.start()
        self._grouping.start()
        self.leads.set()

    def _end(self) -> None:
        if self.leads.is_set():
            self.leads.clear()
            self._planner.stop()
            self._grouping.stop()
