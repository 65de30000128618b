"""A point in time by which something must be over, in place of time arithmetic."""

from __future__ import annotations

import time
from pathlib import Path

from farm.evidence import pressure

#: On a host where somebody always waits for a CPU a device gets so many times its limit to answer.
STRETCH = 4.0
_PRESSURE = Path("/proc/pressure/cpu")


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


class Patience(Deadline):
    """`seconds` of a host that has CPU time to spare, for what a device answers.

    A device that is silent and a host that is too busy to hear it look alike; but only the second makes processes wait
    for a CPU. Time in which some did counts for a quarter (`farm.evidence.pressure`), so that a silent device is still
    found after `STRETCH` times `seconds` at the latest. Where the kernel does not tell, seconds are seconds.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self._seconds = seconds
        self._began, self._stalled_s = time.monotonic(), stalled_s()

    def remaining(self, at_most: float | None = None) -> float | None:
        self._grant()
        return super().remaining(at_most)

    @property
    def expired(self) -> bool:
        self._grant()
        return super().expired

    @property
    def words(self) -> str:
        """How long that is, for people: `20 s`, or `61 s (20 s on a host that is not this busy)`."""
        if self._at is None or self._seconds is None:
            return "any time"
        plain, allowed = f"{self._seconds:.3g} s", self._at - self._began
        return plain if allowed < 1.2 * self._seconds else f"{allowed:.0f} s ({plain} on a host that is not this busy)"

    def _grant(self) -> None:
        """Reached: put it off by the time that the host did not give."""
        now = time.monotonic()
        if self._at is None or self._seconds is None or now < self._at:
            return
        stalled = stalled_s()
        waited = None if stalled is None or self._stalled_s is None else stalled - self._stalled_s
        left = self._seconds - pressure.fair_s(now - self._began, waited, STRETCH)
        if left > 0.01:
            self._at = now + left


def stalled_s() -> float | None:
    """Seconds since boot in which some process of this host waited for a CPU; None: the kernel does not tell."""
    try:
        stalled = pressure.stalled_us(_PRESSURE.read_text())
    except OSError:
        return None
    return None if stalled is None else stalled / 1e6
