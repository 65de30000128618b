"""The log daemon: one ring buffer per kind, and those who follow them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

BUFFERS = ("main", "system", "crash", "events", "radio", "kernel", "security", "stats")
DEFAULT_BUFFERS = ("main", "system", "crash")
DEFAULT_SIZE = 256 << 10
SIZE_MIN, SIZE_MAX = 64 << 10, 256 << 20
MESSAGE_MAX = 4068
"""Bytes of one entry, as in Android's LOGGER_ENTRY_MAX_PAYLOAD."""
PRIORITIES = "VDIWEF"
_ENTRY_OVERHEAD = 48


@dataclass(frozen=True, slots=True)
class Entry:
    """One log entry. `time_s` since the epoch, `monotonic_s` since some start."""

    sequence: int
    time_s: float
    monotonic_s: float
    buffer: str
    uid: int
    pid: int
    tid: int
    priority: str
    tag: str
    message: str

    @property
    def size(self) -> int:
        """Bytes that it counts for."""
        return len(self.message) + len(self.tag) + _ENTRY_OVERHEAD


class Ring:
    """One buffer of bounded size."""

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        self.entries: deque[Entry] = deque()
        self.used = 0
        self.size = size

    def add(self, entry: Entry) -> None:
        """Appends, dropping the oldest above the size."""
        self.entries.append(entry)
        self.used += entry.size
        self.trim()

    def trim(self) -> None:
        """Drops the oldest until the size holds."""
        while self.used > self.size and self.entries:
            self.used -= self.entries.popleft().size

    def clear(self) -> None:
        """Forgets everything."""
        self.entries.clear()
        self.used = 0


class Logd:
    """All buffers. Lives with the operating system: a reboot empties it."""

    def __init__(self) -> None:
        self.rings = {name: Ring() for name in BUFFERS}
        self._sequence = 0
        self._changed = asyncio.Event()

    def write(
        self,
        priority: str,
        tag: str,
        message: str,
        *,
        buffer: str = "main",
        pid: int = 1,
        tid: int | None = None,
        uid: int = 1000,
    ) -> None:
        """Appends one entry."""
        self._sequence += 1
        text = message.encode("utf-8", "replace")[:MESSAGE_MAX].decode("utf-8", "ignore")
        entry = Entry(
            self._sequence,
            time.time(),
            time.monotonic(),
            buffer,
            uid,
            pid,
            tid if tid is not None else pid,
            priority,
            tag[:128],
            text,
        )
        self.rings[buffer].add(entry)
        self._changed.set()

    def since(self, buffers: list[str], sequence: int) -> list[Entry]:
        """Entries of these buffers after `sequence`, in order."""
        found: list[Entry] = []
        for name in buffers:
            for entry in reversed(self.rings[name].entries):
                if entry.sequence <= sequence:
                    break
                found.append(entry)
        return sorted(found, key=lambda entry: entry.sequence)

    @property
    def last_sequence(self) -> int:
        """Of the newest entry, 0 before the first."""
        return self._sequence

    async def wait_newer(self, sequence: int) -> None:
        """Returns when there is an entry after `sequence`."""
        while self._sequence <= sequence:
            self._changed.clear()
            await self._changed.wait()
