"""The agent's heartbeat: this host lives and may be given work, its devices were seen, and its leases are renewed.

A thread of its own that talks to nothing but the database and the attempts' folders, so that no slow device can make
it late.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time

from sqlalchemy import update

from farm.domain import readiness
from farm.domain.devices import Connection
from farm.store import hosts, leases, tables
from farm.work.context import Work
from farm.work.renewal import write_renewed

log = logging.getLogger(__name__)


class Heart:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed_at = float("-inf")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._beat_for_ever, name="heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(40)

    def _beat_for_ever(self) -> None:
        while not self._stop.is_set():
            try:
                self.beat()
            except Exception:  # the database may be away: runners fence themselves when that lasts
                log.exception("a heartbeat failed")
            self._stop.wait(self._work.settings.heartbeat_every_s)

    def beat(self) -> None:
        """One sign of life; leases are renewed when their turn has come."""
        settings = self._work.settings
        due = time.monotonic() - self._renewed_at >= settings.renew_every_s
        unready = self._unready()
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            if hosts.beat(session, settings.host, now, unready):
                log.warning("this host had been given up for lost; it is heard of again")
            session.execute(
                update(tables.Device)
                .where(tables.Device.host == settings.host, tables.Device.connection != Connection.GONE.value)
                .values(seen_at=now)
            )
            held = leases.open_leases(session, settings.host) if due else []
            standing = set(leases.renew(session, [lease.id for lease in held], now)) if held else set()
            attempts = [
                int(x.holder.partition(":")[2]) for x in held if x.id in standing and x.holder[:8] == "attempt:"
            ]
        for attempt_id in attempts:
            try:
                write_renewed(self._work.attempt_dir(attempt_id))
            except OSError as error:  # its runner fences itself when that lasts; the others are told
                log.warning("attempt %d cannot be told of its renewal: %s", attempt_id, error)
        if due:
            self._renewed_at = time.monotonic()

    def _unready(self) -> str | None:
        """Why this host must not be given work now. Only the local folder of attempts is asked: a mount may hang."""
        folder = self._work.state / "attempts"
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            return None
        return readiness.host_words(free, str(folder), self._work.settings.min_free_bytes)
