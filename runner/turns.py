"""Whose turn it is on this machine's CPUs: tests that measure do not disturb each other, and nobody disturbs them.

A real device computes with its own CPUs: its measuring tests hold one of the host's measure slots, so that what the
host does for them does not collide. A virtual device computes with the host's: its measuring test holds the whole
machine, and tests that do not measure share the machine while they run.

The machine is a lock that is held shared or exclusively, behind a gate: whoever comes takes the gate first and keeps it
until the machine is theirs. So a test that waits to measure alone is passed by nobody, however many share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from farm.adb.locks import FileLock, first_free

#: A turn that does not come for this long is a fault of the host, not a reason to wait for ever.
WAIT_S = 1800.0
#: A wait that is worth a word.
LONG_S = 1.0


class NoTurn(Exception):
    """The turn did not come."""


class Need(StrEnum):
    """What a test needs of the machine. The value is how people read it: "waits …"."""

    NOTHING = "for nothing"  # a real device, nothing measured
    SLOT = "for a measure slot"  # a real device, measured
    SHARE = "while another device measures alone"  # a virtual device, nothing measured
    ALONE = "to measure alone"  # a virtual device, measured

    @classmethod
    def of(cls, *, virtual: bool, measures: bool) -> Need:
        if measures:
            return cls.ALONE if virtual else cls.SLOT
        return cls.SHARE if virtual else cls.NOTHING


class Turn:
    """What is held; `release` gives it back."""

    def __init__(self) -> None:
        self._held: list[FileLock] = []

    def hold(self, lock: FileLock) -> None:
        self._held.append(lock)

    def release(self) -> None:
        while self._held:
            self._held.pop().release()


class Turns:
    """The turns of one machine; `slots`: how many tests may measure on real devices at once."""

    def __init__(self, locks_dir: Path, slots: int = 1) -> None:
        self._dir, self._slots = locks_dir, slots

    def take(
        self, need: Need, timeout_s: float, what: str = "", given_up: Callable[[], bool] = lambda: False
    ) -> Turn | None:
        """Wait for a turn, `timeout_s` at most and until `given_up`; None when it did not come."""
        deadline = time.monotonic() + timeout_s
        turn, gate = Turn(), FileLock(self._dir / "machine-gate.lock")

        def got(*locks: FileLock, shared: bool = False) -> FileLock | None:
            return first_free(locks, deadline - time.monotonic(), what, given_up, shared=shared)

        complete = False
        try:
            if need in (Need.SLOT, Need.ALONE):
                slot = got(*(FileLock(self._dir / f"measure-{n}.lock") for n in range(self._slots)))
                if slot is None:
                    return None
                turn.hold(slot)
            if need in (Need.SHARE, Need.ALONE):
                if got(gate) is None:
                    return None
                machine = got(self._machine(), shared=need is Need.SHARE)
                if machine is None:
                    return None
                turn.hold(machine)
            complete = True
            return turn
        finally:
            gate.release()
            if not complete:
                turn.release()

    def wait(self, need: Need, what: str, say: Callable[[str], None], gone: Callable[[], bool] = lambda: False) -> Turn:
        """`take` with the limit that is right for a test; a long wait is told to `say`, once. Raises NoTurn."""
        began, said = time.monotonic(), False

        def look() -> bool:
            nonlocal said
            if not said and time.monotonic() - began > LONG_S:
                said = True
                say(f"waits {need.value}: {self._holder(need)}")
            return gone()

        turn = self.take(need, WAIT_S, what, look)
        if turn is None:
            raise NoTurn(f"waited {need.value} for more than {WAIT_S:g} s; the last holder: {self._holder(need)}")
        return turn

    def _holder(self, need: Need) -> str:
        """Who is in the way, as `pid 17 (what)`; a hint for people."""
        lock = self._machine() if need is not Need.SLOT else FileLock(self._dir / "measure-0.lock")
        return lock.holder()

    def _machine(self) -> FileLock:
        return FileLock(self._dir / "machine.lock")
