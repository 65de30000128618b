"""File locks of this machine: who touches a device, and whose turn it is to use the CPUs.

A lock is `flock` on a file of one folder per machine and user (`farm.settings.locks_dir`): every farm and every desk
of the user sees it, whatever its state folder. It belongs to a process and ends with it, however it dies. The file
stays, and says in words who took it last.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.domain.names import safe

_POLL_S = 0.03
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


class LockBusy(Exception):
    """Somebody else holds the lock, and the bounded wait for it is over."""


class FileLock:
    """A lock on one file: exclusive, or shared with others that share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self, what: str = "", *, shared: bool = False) -> bool:
        """Take it if it is free. `what` tells others who holds it, beside the process id."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if os.fstat(fd).st_ino != self.path.stat().st_ino:
                raise FileNotFoundError  # somebody tidied it away meanwhile: a lock that nobody else would meet
        except OSError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()} ({what or 'unnamed'})\n".encode()[:500], 0)
        self._fd = fd
        return True

    def acquire(self, timeout_s: float, what: str = "") -> None:
        """Take it within `timeout_s`; raises LockBusy that names the holder."""
        if first_free([self], timeout_s, what) is None:
            raise LockBusy(f"{self.path.name} was held by {self.holder()} for more than {timeout_s:g} s")

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def holder(self) -> str:
        """Who took it last, as `pid 17 (what)`; a hint for people, not a fact to decide by."""
        try:
            return self.path.read_text(errors="replace")[:300].strip() or "somebody"
        except OSError:
            return "somebody"


def first_free(
    locks: Sequence[FileLock],
    timeout_s: float,
    what: str = "",
    given_up: Callable[[], bool] = lambda: False,
    *,
    shared: bool = False,
) -> FileLock | None:
    """Take whichever of `locks` is free first, within `timeout_s` and until `given_up`; None when none was."""
    deadline = time.monotonic() + timeout_s
    while True:
        for lock in locks:
            if lock.try_acquire(what, shared=shared):
                return lock
        if time.monotonic() >= deadline or given_up():
            return None
        time.sleep(_POLL_S)


def device_lock(locks_dir: Path, serial: str, address: str = "") -> FileLock:
    """The lock of a device: whoever holds it touches the device, nobody else does.

    A device behind a port of this machine (a virtual one, an emulator) is told apart by the port as well: two farms'
    virtual devices may have the same serial number.
    """
    host, _, port = address.rpartition(":")
    name = f"{serial}@{port}" if host in _LOOPBACK else serial
    return FileLock(locks_dir / f"{safe(name)}.lock")
