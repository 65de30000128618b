"""What changes, written once for all who watch: one subscription of the bus, one text for every stream.

A stream has a box of pieces that are to be sent. One that takes them too slowly loses its box, and reads what it missed
from the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import lru_cache

from farm.api.json import encode
from farm.store.bus import PAGE, Bus, Change

log = logging.getLogger("farm.api")

#: What changes within so long is sent in one piece: many pages that watch much then cost little.
TOGETHER_S = 0.1
#: Most pieces that a stream may be behind.
BEHIND = 100
#: Between two tries to follow the changes, seconds.
AGAIN_S = 0.5
SIGN_OF_LIFE = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """Changes in order, none left out since the piece before, and their text."""

    changes: tuple[Change, ...]
    text: bytes

    @staticmethod
    def of(changes: list[Change]) -> Piece:
        return Piece(tuple(changes), "".join(map(_event, changes)).encode())

    def after(self, last: int, wanted: Callable[[Change], bool] | None) -> bytes:
        """The text of what came after the change `last` and is wanted; None: all is."""
        if wanted is None and self.changes[0].id > last:
            return self.text
        return "".join(_event(c) for c in self.changes if c.id > last and (wanted is None or wanted(c))).encode()


@dataclass(slots=True, eq=False)
class _Box:
    pieces: deque[Piece] = field(default_factory=deque)
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = True  # what came before the first piece is in the table

    def put(self, piece: Piece) -> None:
        if len(self.pieces) >= BEHIND:
            self.pieces.clear()
            self.lost = True
        self.pieces.append(piece)
        self.filled.set()


class Live:
    """The streams of one application. `newest` is the last id that is known; `stopping` the event that ends them all.

    `load(since)` reads a page of changes from the table, oldest first.
    """

    def __init__(
        self,
        bus: Bus,
        load: Callable[[int], list[Change]],
        newest: Callable[[], int],
        stopping: Callable[[], asyncio.Event],
    ) -> None:
        self._bus, self._load, self._newest, self._stopping = bus, load, newest, stopping
        self._boxes: set[_Box] = set()
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def pieces(
        self, since: int, wanted: Callable[[Change], bool] | None, quiet_s: Callable[[], float]
    ) -> AsyncGenerator[bytes, None]:
        """The text of what comes after `since`, in order, none left out: b"" where nothing of it is `wanted`.

        A sign of life after `quiet_s()` without a change. Ends with the application.
        """
        box, last = _Box(), since
        self._boxes.add(box)
        try:
            await self._start()
            while not self._stopping().is_set():
                if box.lost:
                    box.lost = False  # before the table is read: what comes meanwhile is in the box
                    async for piece in self._missed(last):
                        text, last = piece.after(last, wanted), piece.changes[-1].id
                        yield text
                try:
                    async with asyncio.timeout(quiet_s()):
                        await box.filled.wait()
                except TimeoutError:
                    yield SIGN_OF_LIFE
                box.filled.clear()
                found = []
                while box.pieces and not box.lost:
                    piece = box.pieces.popleft()
                    if piece.changes[-1].id > last:
                        found.append(piece.after(last, wanted))
                        last = piece.changes[-1].id
                if found:
                    yield b"".join(found)
        finally:
            self._leave(box)

    async def _missed(self, since: int) -> AsyncIterator[Piece]:
        while True:
            page = await asyncio.to_thread(self._load, since)
            if page:
                yield Piece.of(page)
            if len(page) < PAGE:
                return
            since = page[-1].id

    async def _start(self) -> None:
        """When this returns, every change that is not in the table yet will come into the boxes."""
        async with self._starting:
            if self._tasks or not self._boxes:
                return
            since = await asyncio.to_thread(self._newest)
            self._tasks = [asyncio.ensure_future(self._follow(since)), asyncio.ensure_future(self._wake_at_the_end())]

    def _leave(self, box: _Box) -> None:
        self._boxes.discard(box)
        if not self._boxes:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _follow(self, last: int) -> None:
        while True:
            try:
                async with contextlib.aclosing(self._bus.batches(last)) as batches:
                    async for batch in batches:
                        piece, last = Piece.of(batch), batch[-1].id
                        for box in self._boxes:
                            box.put(piece)
                        await asyncio.sleep(TOGETHER_S)
            except Exception:  # the database is away: what is missed meanwhile is read from the table
                log.exception("the changes cannot be followed; trying again")
                await asyncio.sleep(AGAIN_S)

    async def _wake_at_the_end(self) -> None:
        await self._stopping().wait()
        for box in self._boxes:
            box.filled.set()


@lru_cache(maxsize=4096)
def _event(change: Change) -> str:
    """The same text for every stream: written once."""
    data = {
        "id": change.id,
        "at": encode(change.at),
        "topic": change.topic,
        "ref": change.ref,
        "run": change.run_id,
        "device": change.device_id,
    }
    # json.dumps leaves no line break inside: a reference cannot begin a field of its own. The topic is ours.
    return f"id: {change.id}\nevent: {change.topic}\ndata: {json.dumps(data)}\n\n"
