"""Everything of the work that runs on one host, started and stopped as one: workflows, agent, planner."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.agent import Agent
from farm.work.context import Work
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.workflows import Workflows


class AlreadyRunning(RuntimeError):
    """Another process does this host's work in the same state folder."""


class HostWork:
    """`settings.adb_port` names the port of the farm's own adb server; `inventory` is the path of devices.yaml."""

    def __init__(
        self, db: Database, artifacts: ArtifactStore, state: Path, settings: WorkSettings, inventory: Path
    ) -> None:
        if not settings.adb_port:
            raise ValueError("adb_port must name the port of the farm's own adb server")
        self.work = Work(db, state.resolve(), artifacts, settings, adb_port=settings.adb_port)
        self.workflows = Workflows(self.work)
        self.agent = Agent(self.work, inventory, repair=self.workflows.repair)
        self.planner = Planner(db, settings, self.workflows.enqueue)
        self._lock: IO[str] | None = None

    def start(self) -> None:
        """The database must be migrated. Raises AdbError when no adb server can be had, AlreadyRunning."""
        self._own(wait_s=10.0)
        self.work.locks_dir  # noqa: B018  # a folder of locks that cannot be used is told now
        for folder in ("attempts", "packs", "stamps", "dirty"):
            (self.work.state / folder).mkdir(parents=True, exist_ok=True)
        self.agent.start()
        self.workflows.launch()
        self.planner.start()

    def _own(self, wait_s: float) -> None:
        """One farm per state folder: the lock is the process's and ends with it, however it ends."""
        self.work.state.mkdir(parents=True, exist_ok=True)
        self._lock = (self.work.state / "host.lock").open("a")
        end = time.monotonic() + wait_s  # the one before may just be going
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() >= end:
                    self._lock.close()
                    raise AlreadyRunning(
                        f"another farm works in {self.work.state}: stop it (farm down), or name another state folder"
                    ) from None
                time.sleep(0.1)

    def stop(self, *, adb_server: bool = False) -> None:
        """Attempts under way are left as they are and taken up after the next start; runners live on."""
        self.work.stopping.set()
        self.planner.stop()
        for stream in list(self.work.logcats.values()):
            stream.stop()
        self.agent.stop(adb_server=adb_server)
        self.workflows.stop()
        if self._lock is not None:
            self._lock.close()
