"""Everything of the work that runs on one host, started and stopped as one: workflows, agent, planner."""

from __future__ import annotations

from pathlib import Path

from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.agent import Agent
from farm.work.context import Work
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.workflows import Workflows


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

    def start(self) -> None:
        """The database must be migrated. Raises AdbError when no adb server can be had."""
        for folder in ("attempts", "locks", "packs", "stamps", "dirty"):
            (self.work.state / folder).mkdir(parents=True, exist_ok=True)
        self.agent.start()
        self.workflows.launch()
        self.planner.start()

    def stop(self, *, adb_server: bool = False) -> None:
        """Attempts under way are left as they are and taken up after the next start; runners live on."""
        self.work.stopping.set()
        self.planner.stop()
        for stream in list(self.work.logcats.values()):
            stream.stop()
        self.agent.stop(adb_server=adb_server)
        self.workflows.stop()
