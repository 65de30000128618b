"""Everything of the work that runs on one host, started and stopped as one.

`AgentWork` is a host's side: its devices and its attempts. `HostWork` is that and the scheduler in one process: the
whole work of a farm of one machine.
"""

from __future__ import annotations

import fcntl
import logging
import platform
import secrets
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import IO

from sqlalchemy.exc import SQLAlchemyError

from farm.store import hosts
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.postgres import PEER_S, Lock
from farm.work import queue
from farm.work.agent import Agent
from farm.work.context import Work
from farm.work.scheduler import Scheduler
from farm.work.settings import WorkSettings
from farm.work.workflows import Workflows

log = logging.getLogger(__name__)


class AlreadyRunning(RuntimeError):
    """Another process does this host's work."""


class AgentWork:
    """`settings.adb_port` names the port of the farm's own adb server; `inventory` is the path of devices.yaml.

    `incarnation` names this process among all that ever speak for the host; `secret` proves it on the agent channel.
    """

    def __init__(
        self, db: Database, artifacts: ArtifactStore, state: Path, settings: WorkSettings, inventory: Path
    ) -> None:
        if not settings.adb_port:
            raise ValueError("adb_port must name the port of the farm's own adb server")
        self.work = Work(db, state.resolve(), artifacts, settings, adb_port=settings.adb_port)
        self.workflows = Workflows(self.work)
        self.agent = Agent(self.work, inventory, repair=self.workflows.repair)
        self.incarnation, self.secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self._lock: IO[str] | None = None
        self._host_lock = None if db.is_sqlite else Lock(db.url, f"host:{settings.host}")
        self._guard: threading.Thread | None = None

    def start(self) -> None:
        """The database must be migrated. Raises AdbError when no adb server can be had, AlreadyRunning."""
        self._own(wait_s=10.0)
        self.work.locks_dir  # noqa: B018  # a folder of locks that cannot be used is told now
        for folder in ("attempts", "packs", "stamps", "dirty"):
            (self.work.state / folder).mkdir(parents=True, exist_ok=True)
        self._register()
        self.agent.start()
        self.workflows.launch()

    def _own(self, wait_s: float) -> None:
        """One process per state folder, and per host name: both locks end with the process, however it ends."""
        self.work.state.mkdir(parents=True, exist_ok=True)
        self._lock = (self.work.state / "host.lock").open("a")
        folder = f"another farm works in {self.work.state}"
        if not self._wait(self._try_folder, wait_s, folder):  # the one before may just be going
            self._lock.close()
            raise AlreadyRunning(f"{folder}: stop it (farm down), or name another state folder")
        # A process that was cut off keeps its lock until the database notices.
        name = f"another agent speaks for the host {self.work.settings.host!r}"
        if self._host_lock is not None and not self._wait(self._host_lock.take, wait_s + PEER_S, name):
            self._lock.close()
            raise AlreadyRunning(f"{name}: stop it, or choose another --host")

    def _try_folder(self) -> bool:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _wait(self, take: Callable[[], bool], limit_s: float, why: str) -> bool:
        """Try until `take` has it or the time is over; whoever looks on is told at once why nothing happens."""
        end = time.monotonic() + limit_s
        if take():
            return True
        log.warning("%s: waiting up to %.0f s for it to end", why, limit_s)
        while not self.work.stopping.wait(0.2):
            if take():
                return True
            if time.monotonic() >= end:
                break
        return False

    def _register(self) -> None:
        info = {
            "farm_version": version("device-farm"),
            "protocol": queue.PROTOCOL,
            "platform": platform.platform(),
            "node": platform.node(),
            "adb_port": self.work.adb_port,
        }
        with self.work.db.session() as session:
            now = self.work.db.now(session)
            hosts.register(session, self.work.settings.host, self.incarnation, self.secret, info, now)

    def keep_name(self, lost: Callable[[], None]) -> None:
        """Watch over this host's name; `lost` is called once another process has taken it over."""
        if self._host_lock is not None:
            self._guard = threading.Thread(target=self._watch_name, args=(lost,), name="host name", daemon=True)
            self._guard.start()

    def _watch_name(self, lost: Callable[[], None]) -> None:
        """The lock ends with the connection: taken again when the database is back, unless somebody was faster."""
        assert self._host_lock is not None
        while not self.work.stopping.wait(2.0):
            if not self._host_lock.take() and self._is_replaced():
                lost()
                return

    def _is_replaced(self) -> bool:
        """Whether another process has registered for this host; not known (False) while the database is away."""
        try:
            with self.work.db.read() as session:
                return hosts.incarnation_of(session, self.work.settings.host) != self.incarnation
        except SQLAlchemyError:
            return False

    def stop(self, *, adb_server: bool = False) -> None:
        """Attempts under way are left as they are and taken up after the next start; runners live on."""
        self.work.stopping.set()
        for stream in list(self.work.logcats.values()):
            stream.stop()
        self.agent.stop(adb_server=adb_server)
        self.workflows.stop()
        if self._host_lock is not None:
            self._host_lock.release()
        if self._lock is not None:
            self._lock.close()


class HostWork(AgentWork):
    """Agent and scheduler in one process."""

    def __init__(
        self, db: Database, artifacts: ArtifactStore, state: Path, settings: WorkSettings, inventory: Path
    ) -> None:
        super().__init__(db, artifacts, state, settings, inventory)
        self.scheduler = Scheduler(db, settings, self.workflows.enqueue)

    def start(self) -> None:
        super().start()
        self.scheduler.start()

    def stop(self, *, adb_server: bool = False) -> None:
        self.work.stopping.set()
        self.scheduler.stop()
        super().stop(adb_server=adb_server)
