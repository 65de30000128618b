"""Changes of every process, in order and none left out, on PostgreSQL.

There transactions get the ids of their changes when they write and become visible when they commit, so a greater id
may be seen first. Handing out what is visible would lose the smaller one for everybody who remembers the greatest id.
The feed therefore stops before a gap until it is *settled*: no transaction that was open when the gap was first seen is
open any more (`pg_current_snapshot`), so what is still missing then was rolled back. The server ends transactions that
idle (`farm.store.postgres`), which bounds the wait.

Other processes are woken by NOTIFY after the commit, sent by the feed's own thread and not in the writers'
transactions, where it would make every commit wait for the one before. A lost NOTIFY costs a second: the feed looks by
itself as often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import psycopg

from farm.store.bus import Change
from farm.store.postgres import connect

log = logging.getLogger(__name__)

CHANNEL = "farm_changes"
#: How often the table is looked at though nobody said anything, seconds.
LOOK_S = 1.0
#: Most rows handed out at once.
PAGE = 500
#: Between taking its number and being known as open a transaction needs a moment: a gap is never younger, seconds.
YOUNG_S = 0.05
#: At its start the feed waits so long for the transactions that are open then, seconds.
BEGIN_S = 40.0

_OPEN = "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() AS s"
_ROWS = "SELECT id, at, topic, ref, run_id, device_id FROM changes WHERE id > %s ORDER BY id LIMIT %s"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the table proves later: ids below `newest` that it missed and that are still missing then."""

    newest: int  # the greatest id that was seen
    limit: int  # the first transaction that had not begun
    at: float  # monotonic

    def settled(self, oldest_open: int) -> bool:
        return oldest_open >= self.limit and time.monotonic() - self.at >= YOUNG_S


class Feed:
    """One thread per process that reads what was committed anywhere and hands it on; a second one listens."""

    def __init__(self, url: str, publish: Callable[[Sequence[Change]], None]) -> None:
        self._url, self._publish = url, publish
        self.horizon = 0  # every change up to this id is settled and was handed out (or came before the start)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._written = threading.Event()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener: psycopg.Connection[tuple[object, ...]] | None = None
        self._looks: deque[Look] = deque()  # those that saw a gap, oldest first

    def start(self) -> None:
        """Begin; when this returns, everything that is committed from now on will be handed out."""
        with self._guard:
            if self._threads or self._stop.is_set():
                return
            with connect(self._url) as connection:
                self.horizon = self._begin(connection)
            for name, loop in (("changes", self._read_for_ever), ("changes heard", self._listen_for_ever)):
                thread = threading.Thread(target=loop, name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def written(self) -> None:
        """This process has committed changes: tell the others, and look."""
        self._written.set()
        self._wake.set()
        if not self._threads:
            self.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        with self._guard:
            if self._listener is not None:
                self._listener.close()
            for thread in self._threads:
                thread.join(10)

    def _begin(self, connection: psycopg.Connection[tuple[object, ...]]) -> int:
        """The newest id, once everything below it is settled."""
        _, limit = _open(connection)
        newest = _number(connection, "SELECT coalesce(max(id), 0) FROM changes")
        until = time.monotonic() + BEGIN_S
        while _open(connection)[0] < limit and not self._stop.wait(0.02):
            if time.monotonic() > until:
                log.warning("a transaction has been open for %g s: its changes may be seen late", BEGIN_S)
                break
        return newest

    def _read_for_ever(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        while not self._stop.is_set():
            self._wake.wait(YOUNG_S if self._looks else LOOK_S)
            self._wake.clear()
            if self._stop.is_set():
                break
            try:
                connection = connection or connect(self._url)
                if self._written.is_set():
                    self._written.clear()
                    connection.execute(f"NOTIFY {CHANNEL}")
                while self._hand_on(connection):
                    pass
            except psycopg.Error as error:
                log.warning("the changes cannot be read, trying again: %s", error)
                if connection is not None:
                    connection.close()
                connection = None
                self._stop.wait(0.5)
        if connection is not None:
            connection.close()

    def _hand_on(self, connection: psycopg.Connection[tuple[object, ...]]) -> bool:
        """Publish the next settled changes; True when there may be more at once."""
        # The open transactions first: one that is over before the rows are read has its rows among them.
        oldest, limit = _open(connection)
        rows = [_change(row) for row in connection.execute(_ROWS, (self.horizon, PAGE)).fetchall()]
        settled = self._settled(oldest)
        ready: list[Change] = []
        for change in rows:
            if change.id > settled and change.id != (ready[-1].id if ready else self.horizon) + 1:
                self._looks.append(Look(rows[-1].id, limit, time.monotonic()))
                break
            ready.append(change)
        if ready:
            self.horizon = ready[-1].id
            self._publish(ready)
        return len(rows) == PAGE == len(ready)

    def _settled(self, oldest_open: int) -> int:
        """The id up to which what is missing will stay so."""
        known = self.horizon
        while self._looks and (self._looks[0].newest <= self.horizon or self._looks[0].settled(oldest_open)):
            known = max(known, self._looks.popleft().newest)
        return known

    def _listen_for_ever(self) -> None:
        while not self._stop.is_set():
            try:
                with self._guard:
                    if self._stop.is_set():
                        return
                    self._listener = connect(self._url)
                self._listener.execute(f"LISTEN {CHANNEL}")
                for _ in self._listener.notifies():
                    self._wake.set()
            except psycopg.Error as error:
                if not self._stop.is_set():
                    log.warning("not listening to changes of others, trying again: %s", error)
                    self._stop.wait(1.0)


def _open(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[int, int]:
    """(the oldest transaction that is open, the first that has not begun)."""
    row = connection.execute(_OPEN).fetchone()
    assert row is not None
    return int(str(row[0])), int(str(row[1]))


def _change(row: tuple[Any, ...]) -> Change:
    id_, at, topic, ref, run_id, device_id = row
    return Change(id_, at.astimezone(UTC), topic, ref, run_id, device_id)


def _number(connection: psycopg.Connection[tuple[object, ...]], query: str) -> int:
    row = connection.execute(query).fetchone()
    return 0 if row is None else int(str(row[0]))
