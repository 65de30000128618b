"""Requests that wait until something becomes of a reservation: woken by its own change, and by nothing else.

However many wait, the bus of changes has one listener for all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from farm.api.errors import ApiError
from farm.store.bus import Bus, Change

#: Longest wait of one question, seconds, and how many may wait at a time.
MAX_WAIT_S = 300.0
MAX_WAITERS = 512
TOPIC = "reservation"

Found = TypeVar("Found")


class Waiters:
    """Those of one application. `stopping` is its event that ends every wait."""

    def __init__(self, bus: Bus, stopping: Callable[[], asyncio.Event]) -> None:
        self._bus, self._stopping = bus, stopping
        self._by_ref: dict[str, set[asyncio.Event]] = {}
        self._starting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._by_ref.values()))

    async def settled(
        self, ident: int, wait_s: float, look: Callable[[], Awaitable[Found]], waits: Callable[[Found], bool]
    ) -> Found:
        """What `look` finds once it `waits` no more, or when `wait_s` seconds are over. Raises ApiError 503."""
        if wait_s <= 0:
            return await look()
        if len(self) >= MAX_WAITERS:
            raise ApiError(503, "busy", f"{MAX_WAITERS} others wait already: ask again without wait_s")
        changed, until = asyncio.Event(), time.monotonic() + wait_s
        mine = self._by_ref.setdefault(str(ident), set())
        mine.add(changed)  # before the first look: what changes in between is heard
        try:
            await self._begin()
            while True:
                found = await look()
                left = until - time.monotonic()
                if left <= 0 or self._stopping().is_set() or not waits(found):
                    return found
                try:
                    async with asyncio.timeout(left):
                        await changed.wait()
                except TimeoutError:
                    continue
                changed.clear()
        finally:
            mine.discard(changed)
            if not mine and self._by_ref.get(str(ident)) is mine:
                del self._by_ref[str(ident)]

    async def _begin(self) -> None:
        if self._loop is not None:
            return
        async with self._starting:
            if self._loop is None:
                loop = asyncio.get_running_loop()
                await asyncio.to_thread(self._bus.listen, self._heard)
                self._loop, self._end = loop, loop.create_task(self._wake_at_the_end())

    async def _wake_at_the_end(self) -> None:
        await self._stopping().wait()
        self._bus.unlisten(self._heard)
        self._wake(list(self._by_ref))

    def _heard(self, changes: Sequence[Change]) -> None:
        """On the writer's thread."""
        refs = [change.ref for change in changes if change.topic == TOPIC and change.ref in self._by_ref]
        if refs and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake, refs)

    def _wake(self, refs: Sequence[str]) -> None:
        for ref in refs:
            for changed in self._by_ref.get(ref, ()):
                changed.set()
