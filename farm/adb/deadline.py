"""A point in time by which something must be over, in place of time arithmetic."""

from __future__ import annotations

import time


class Deadline:
    """`seconds` from now on the monotonic clock; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    def remaining(self, at_most: float | None = None) -> float | None:
        """Seconds left, never negative; None when there is no end and no `at_most`."""
        if self._at is None:
            return at_most
        left = max(0.0, self._at - time.monotonic())
        return left if at_most is None else min(left, at_most)

    @property
    def expired(self) -> bool:
        return self._at is not None and time.monotonic() >= self._at
