"""The planner's loop: what waits, on which device it may start, and why the rest waits on."""

from __future__ import annotations

from farm.store.db import Database


class Planner:
    """Wakes on every change that could matter and by a slow tick; grants leases by `farm.domain.scheduling.plan`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError
