"""The agent's loop: which devices there are, how they are, and that their leases live on."""

from __future__ import annotations

from pathlib import Path

from farm.store.db import Database
from farm.work.settings import WorkSettings


class Agent:
    """Owns the adb server of this host, keeps the device rows true and renews the leases held here."""

    def __init__(self, db: Database, state: Path, settings: WorkSettings) -> None:
        self._db, self._state, self._settings = db, state, settings

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError
