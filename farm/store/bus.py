"""What changed, as it is committed: the source of live pages and of the planner's wake-ups.

Every write that a page would show records a `Change` row in its own transaction (`touch`). After the commit the
database hands those rows to the bus, which fans them out inside this process; on PostgreSQL `farm.store.feed` brings
those of every process, in order. A subscriber that was away says which change it saw last and gets the rest from the
table first.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Executable, bindparam, insert, select
from sqlalchemy.orm import Session

from farm.store import appended, tables

#: A subscriber that is this many changes behind is sent to the table instead of being fed from memory.
BACKLOG = 1000
#: Most rows read from the table at once.
PAGE = 500
#: Where a session keeps what `touch` recorded, and what is written of it.
_PENDING, _WRITTEN = "farm_changes", "farm_changes_written"
_COLUMNS = ("at", "topic", "ref", "run_id", "device_id")
#: Changes are written so many at a time: there is a statement for each number.
_AT_ONCE = 8
#: How long changes are kept (farm.store.upkeep): who was away longer loads its page anew.
KEEP = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the table `changes`. `topic` is a noun (device, run, job, attempt, test, …), `ref` its id."""

    id: int
    at: datetime
    topic: str
    ref: str
    run_id: int | None = None
    device_id: int | None = None


def touch(
    session: Session,
    topic: str,
    ref: object,
    *,
    at: datetime,
    run_id: int | None = None,
    device_id: int | None = None,
) -> None:
    """Record in this transaction that `ref` of `topic` changed; subscribers hear of it after the commit."""
    row = {"at": at, "topic": topic, "ref": str(ref), "run_id": run_id, "device_id": device_id}
    session.info.setdefault(_PENDING, []).append(row)


def write_changes(session: Session) -> list[Change]:
    """Write what `touch` recorded and what waits beside it; returns every change of this transaction so far.

    The database does it last thing before the commit: ids are taken late, so that gaps in them are short.
    """
    written: list[Change] = session.info.setdefault(_WRITTEN, [])
    rows: list[dict[str, Any]] = session.info.pop(_PENDING, [])
    while rows:
        piece, rows = rows[:_AT_ONCE], rows[_AT_ONCE:]
        values = {f"{name}_{n}": row[name] for n, row in enumerate(piece) for name in _COLUMNS}
        ids = sorted(appended.write(session, _insert(len(piece)), values).scalars())  # rising in the order of the rows
        written.extend(Change(ident, **row) for ident, row in zip(ids, piece, strict=True))
    appended.write(session)
    return written


@lru_cache(maxsize=_AT_ONCE)
def _insert(count: int) -> Executable:
    """An INSERT of so many changes; the values of the n-th are `at_n`, `topic_n`, …."""
    table = tables.Change.__table__
    rows = [{name: bindparam(f"{name}_{n}", type_=table.c[name].type) for name in _COLUMNS} for n in range(count)]
    return insert(tables.Change).values(rows).returning(tables.Change.id)


def changes_after(session: Session, since_id: int, limit: int = PAGE, *, until: int | None = None) -> list[Change]:
    """Changes with a greater id (and none above `until`), oldest first."""
    query = select(tables.Change).where(tables.Change.id > since_id)
    if until is not None:
        query = query.where(tables.Change.id <= until)
    return [_change(row) for row in session.scalars(query.order_by(tables.Change.id).limit(limit))]


def _change(row: tables.Change) -> Change:
    return Change(row.id, row.at, row.topic, row.ref, row.run_id, row.device_id)


class Bus:
    """Fan-out of committed changes inside this process; safe to use from any thread."""

    def __init__(self, load: Callable[[int], Sequence[Change]], begin: Callable[[], None] = lambda: None) -> None:
        """`load(since_id)` reads older changes from the table, oldest first, at most `PAGE` of them.

        `begin` is called before anybody listens: from then on everything that is committed must reach `publish`.
        """
        self._load, self._begin = load, begin
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Sequence[Change]], None]] = []

    def publish(self, changes: Sequence[Change]) -> None:
        """Called after a commit. A listener's own error never reaches the writer."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(changes)
            except Exception:  # a page that went away must not break a write that is already durable
                self.unlisten(listener)

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Call `listener` after every commit, on the writer's thread: it must only set a flag or queue."""
        self._begin()
        with self._lock:
            self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Sequence[Change]], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    async def subscribe(self, since_id: int | None = None) -> AsyncIterator[Change]:
        """Every change after `since_id` (None: from now on), in order, without end; cancel the iteration to leave."""
        async for batch in self.batches(since_id):
            for change in batch:
                yield change

    async def batches(self, since_id: int | None = None) -> AsyncGenerator[list[Change], None]:
        """The same, everything that is there at a time: who takes them seldom is woken seldom."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        box: deque[Change] = deque(maxlen=BACKLOG)  # what falls out is noticed by its id, and read from the table

        def listener(changes: Sequence[Change]) -> None:
            box.extend(changes)
            if not ready.is_set():
                loop.call_soon_threadsafe(ready.set)

        await asyncio.to_thread(self.listen, listener)
        try:
            last = since_id
            if last is not None:
                async for page in self._replay(last):
                    last = page[-1].id
                    yield page
            while True:
                await ready.wait()
                ready.clear()  # before the box is emptied: what comes from here on sets it again
                found = sorted((box.popleft() for _ in range(len(box))), key=lambda change: change.id)
                batch = [change for change in found if last is None or change.id > last]
                if not batch:
                    continue
                if last is not None and batch[-1].id - last > len({change.id for change in batch}):
                    async for page in self._replay(last):
                        last = page[-1].id
                        yield page
                    batch = [change for change in batch if change.id > last]
                if batch:
                    last = batch[-1].id
                    yield batch
        finally:
            self.unlisten(listener)

    async def _replay(self, since_id: int) -> AsyncIterator[list[Change]]:
        """Older changes from the table, a page at a time; none that is empty."""
        while True:
            page = list(await asyncio.to_thread(self._load, since_id))
            if page:
                yield page
            if len(page) < PAGE:
                return
            since_id = page[-1].id
