"""The agent's slow tick: changes that nobody asks for any more and old points of the heat curves are let go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.store import series, tables, upkeep
from farm.work.context import Work

#: Between two pieces everybody else may write.
_PAUSE_S = 0.05


class Upkeep:
    """Remembers up to where each device's curve has been thinned, so that a pass reads only what is new."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._thinned: dict[int, datetime] = {}

    def once(self) -> None:
        """Everything that is due, piece by piece; ends early when the farm stops."""
        self._repeat(upkeep.prune_changes)
        self._repeat(series.forget)
        self._join_series()
        with self._work.db.read() as session:
            mine = tables.Device.host == self._work.settings.host
            ids = list(session.scalars(select(tables.Device.id).where(mine)))
        for device_id in ids:
            self._repeat(partial(_forget, device_id))
            while self._thin(device_id) and not self._work.stopping.wait(_PAUSE_S):
                pass

    def _join_series(self) -> None:
        """Series in many small chunks, of attempts that run or have ended of late, are put together."""
        with self._work.db.read() as session:
            now = self._work.db.now(session)
            a = tables.Attempt
            recent = (a.ended_at.is_(None)) | (a.ended_at >= now - upkeep.LATELY)
            mine = a.device_id.in_(select(tables.Device.id).where(tables.Device.host == self._work.settings.host))
            ids = list(session.scalars(select(a.id).where(recent, mine).order_by(a.id.desc()).limit(upkeep.BATCH)))
            crowded = series.crowded(session, ids)
        for attempt_id, name, unit in crowded:
            if self._work.stopping.wait(_PAUSE_S):
                return
            with self._work.db.session() as session:
                series.join(session, attempt_id, name, unit)

    def _repeat(self, piece: Callable[[Session, datetime], int]) -> None:
        """A piece again and again, a transaction each, while it is a full one."""
        while not self._work.stopping.is_set():
            with self._work.db.session() as session:
                done = piece(session, self._work.db.now(session))
            if done < upkeep.BATCH or self._work.stopping.wait(_PAUSE_S):
                return

    def _thin(self, device_id: int) -> bool:
        """One a minute of the next readings; whether there may be more of them."""
        with self._work.db.read() as session:
            now = self._work.db.now(session)
            before = upkeep.minute(now - upkeep.FULL_FOR)  # whole minutes: the one under way would lose its first later
            since = self._thinned.get(device_id, now - upkeep.THIN_FOR)
            found = upkeep.temperatures_between(session, device_id, since, before)
        left = upkeep.surplus(found)
        if left:
            with self._work.db.session() as session:
                upkeep.delete_events(session, left)
        more = len(found) == upkeep.BATCH
        self._thinned[device_id] = upkeep.minute(found[-1][1]) if more else max(since, before)
        return more


def _forget(device_id: int, session: Session, now: datetime) -> int:
    return upkeep.forget_temperatures(session, device_id, now - upkeep.THIN_FOR)
