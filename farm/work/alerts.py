"""Keeps the alerts true: looked at again once a second at most, by whoever plans, written only when they change."""

from __future__ import annotations

import time

from farm.store import alerts
from farm.store.db import Database

_EVERY_S = 1.0


class Alerts:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._looked_at = float("-inf")

    def once(self) -> None:
        """Open, reword and clear what the rules say now."""
        if time.monotonic() - self._looked_at < _EVERY_S:
            return
        self._looked_at = time.monotonic()
        with self._db.read() as session:
            wanted = alerts.due(session, self._db.now(session))
            if alerts.agrees(session, wanted):
                return
        with self._db.session() as session:
            now = self._db.now(session)
            alerts.reconcile(session, alerts.due(session, now), now)
