"""File locks: who touches a device, who may measure.

A lock is `flock` on a file of the state folder: it belongs to a process, ends with it however it dies, and is seen by
the agent, by runners and by a desk alike.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.domain.names import safe

_POLL_S = 0.03


class LockBusy(Exception):
    """Somebody else holds the lock, and the bounded wait for it is over."""


class FileLock:
    """An exclusive lock on one file; the file stays. It says in words who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self, holder: str = "") -> bool:
        """Take it if it is free."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder or 'somebody'} (pid {os.getpid()})\n".encode(), 0)
        self._fd = fd
        return True

    def acquire(self, timeout_s: float, holder: str = "") -> None:
        """Take it within `timeout_s`; raises LockBusy that names the holder."""
        if first_free([self], timeout_s, holder) is None:
            raise LockBusy(f"{self.path} is held by {self.holder()} for more than {timeout_s:g} s")

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def holder(self) -> str:
        """Who took it last, in words; a hint for people, not a fact to decide by."""
        try:
            return self.path.read_text(errors="replace")[:200].strip() or "somebody"
        except OSError:
            return "somebody"


def first_free(
    locks: Sequence[FileLock], timeout_s: float, holder: str = "", given_up: Callable[[], bool] = lambda: False
) -> FileLock | None:
    """Take whichever of `locks` is free first, within `timeout_s` and until `given_up`; None when none was."""
    deadline = time.monotonic() + timeout_s
    while True:
        for lock in locks:
            if lock.try_acquire(holder):
                return lock
        if time.monotonic() >= deadline or given_up():
            return None
        time.sleep(_POLL_S)


def device_lock(locks_dir: Path, serial: str) -> FileLock:
    """The lock of a device: whoever holds it touches the device, nobody else does."""
    return FileLock(locks_dir / f"{safe(serial)}.lock")


def measure_slots(locks_dir: Path, count: int) -> list[FileLock]:
    """The measure slots of this host: a test that measures holds one, so that tests do not disturb each other."""
    return [FileLock(locks_dir / f"measure-{n}.lock") for n in range(count)]
