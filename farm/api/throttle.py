"""Slows down who guesses: after so many failures within a window, an address must wait."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

#: Addresses remembered; the one that failed longest ago is forgotten first.
_ADDRESSES = 10_000


class Throttle:
    """Counts failures per address. A success forgets nothing: it is no reason to guess on."""

    def __init__(self, failures: int = 10, window_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures, self._window_s, self._clock = failures, window_s, clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Seconds until `address` may try again; 0 when it may now."""
        with self._lock:
            times = self._recent(address)
            return max(0.0, times[0] + self._window_s - self._clock()) if len(times) >= self._failures else 0.0

    def failed(self, address: str) -> None:
        with self._lock:
            times = self._recent(address)
            times.append(self._clock())
            while len(times) > self._failures:
                times.popleft()
            self._seen[address] = times
            self._seen.move_to_end(address)
            while len(self._seen) > _ADDRESSES:
                self._seen.popitem(last=False)

    def _recent(self, address: str) -> deque[float]:
        times = self._seen.get(address, deque())
        while times and times[0] <= self._clock() - self._window_s:
            times.popleft()
        return times
