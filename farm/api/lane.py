"""Where writers take turns: what waits for its turn goes together, in one transaction.

SQLite has one writer at a time, and beginning and committing cost as much as the work between them. A request that
finds the lane empty is served alone and at once; those who came while it was served go together behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from farm.store.db import Database

#: So many go together at most: who is behind them waits no longer than they take.
TOGETHER = 16

Work = Callable[[Session], Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    work: Work
    answer: asyncio.Future[Any]


class Lane:
    """One thread that writes. Each work sees what those before it did, and nothing is answered before its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._entries: deque[_Entry] = deque()
        self._filled = threading.Event()
        self._thread: threading.Thread | None = None

    async def run(self, work: Work) -> Any:
        """What `work` returns, once it is committed; raises what it raises, and then nothing of it is kept."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="hot lane", daemon=True)
            self._thread.start()
        entry = _Entry(work, asyncio.get_running_loop().create_future())
        self._entries.append(entry)
        self._filled.set()
        return await entry.answer

    def _serve(self) -> None:
        while True:
            self._filled.wait()
            self._filled.clear()
            while self._entries:
                self._take([self._entries.popleft() for _ in range(min(TOGETHER, len(self._entries)))])

    def _take(self, entries: Sequence[_Entry]) -> None:
        try:
            with self._db.session() as session:
                made = [entry.work(session) for entry in entries]
        except BaseException as error:  # handed to whoever asked
            if len(entries) == 1:
                _tell(entries, [error])
                return
            for entry in entries:  # nothing was kept: each for itself, so that one's refusal is nobody else's
                self._take([entry])
            return
        _tell(entries, made)


def _tell(entries: Sequence[_Entry], made: Sequence[Any]) -> None:
    def tell() -> None:
        for entry, one in zip(entries, made, strict=True):
            if entry.answer.done():  # whoever asked has gone
                continue
            if isinstance(one, BaseException):
                entry.answer.set_exception(one)
            else:
                entry.answer.set_result(one)

    try:
        entries[0].answer.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:  # the loop has ended, and nobody listens any more
        return
