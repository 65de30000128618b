"""What one process of a farm of many is for: a server's own work, and how agents find it."""

from __future__ import annotations

import logging
import secrets
import threading

from farm.store import servers
from farm.store.db import Database
from farm.work.queue import Queue
from farm.work.scheduler import Scheduler
from farm.work.settings import WorkSettings

log = logging.getLogger("farm.server")


class ServerWork:
    """What a server does beside answering: it plans, when no other server does. It touches no device."""

    def __init__(self, db: Database, settings: WorkSettings) -> None:
        self._queue = Queue(db)
        self.scheduler = Scheduler(db, settings, self._queue.enqueue)

    def start(self) -> None:
        self.scheduler.start()

    def stop(self) -> None:
        self.scheduler.stop()
        self._queue.close()


class Presence:
    """Writes down every few seconds that this server is up and where, for agents that look for one."""

    def __init__(self, db: Database, url: str) -> None:
        self._db, self._url, self._id = db, url, secrets.token_hex(8)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell_for_ever, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Say that it goes; a database that is away finds out by itself."""
        self._stop.set()
        self._thread.join(10)
        try:
            with self._db.session() as session:
                servers.forget(session, self._id)
        except Exception as error:
            log.warning("this server could not take back its address: %s", error)

    def _tell_for_ever(self) -> None:
        while not self._stop.is_set():
            try:
                with self._db.session() as session:
                    servers.announce(session, self._id, self._url, self._db.now(session))
            except Exception as error:
                log.warning("this server could not write down its address: %s", error)
            self._stop.wait(servers.EVERY_S)
