"""What every step works with, and where its files are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from farm.adb.device import Device
from farm.adb.logcat import LogcatStream
from farm.domain.names import safe
from farm.settings import locks_dir
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.settings import WorkSettings


@dataclass(slots=True)
class Work:
    """The agent's side of the farm on one host: database, folders, adb server, and what runs in this process."""

    db: Database
    state: Path
    artifacts: ArtifactStore
    settings: WorkSettings
    adb_host: str = "127.0.0.1"
    adb_port: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)
    logcats: dict[int, LogcatStream] = field(default_factory=dict)  # by attempt, while they stream
    adb_steady: Callable[[], bool] = lambda: True  # whether what adb does not list is gone (Tracker.steady)
    entered: set[int] = field(default_factory=set)  # attempts that a step of this process is in
    pushes: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        self.pushes = threading.BoundedSemaphore(self.settings.pushes)

    def device(self, address: str) -> Device:
        return Device(self.adb_host, self.adb_port, address)

    def attempt_dir(self, attempt_id: int) -> Path:
        return self.state / "attempts" / str(attempt_id)

    def lease_dir(self, lease_id: int) -> Path:
        """What a reservation's lease needs to be cleaned after."""
        return self.state / "leases" / str(lease_id)

    @property
    def locks_dir(self) -> Path:
        """The locks of this machine, shared with other farms and with desks. Raises SettingsError."""
        return locks_dir()

    def stamps(self, serial: str) -> Path:
        """What the farm last read back of a device's files (see farm.adb.push_cache)."""
        return self.state / "stamps" / f"{safe(serial)}.json"

    def pack_dir(self, pack_hash: str) -> Path:
        """A suite pack laid out, read-only, shared by all attempts."""
        return self.state / "packs" / pack_hash
