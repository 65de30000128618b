"""The device's lock, held by the agent while it touches the device: no runner, desk or other farm works on it then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from farm.adb.locks import FileLock, device_lock
from farm.domain.outcomes import Outcome
from farm.store import tables
from farm.work.context import Work
from farm.work.step import Cut, Step

#: Whoever holds a leased device (a desk, another farm, a runner that is just ending) gets this long to let go.
WAIT_S = 60.0


def lock_of(work: Work, device: tables.Device) -> FileLock:
    """The lock of a device on this machine."""
    return device_lock(work.locks_dir, device.serial, device.address or "")


@contextmanager
def held(step: Step, wait_s: float = WAIT_S, *, checked: bool = True) -> Iterator[None]:
    """Hold the leased device's lock; the wait for it is shown. Raises Cut (infra-error) that names the holder.

    `checked`: a cancel or a lost lease ends the wait too.
    """
    lock, end = lock_of(step.work, step.device_row), time.monotonic() + wait_s
    while not lock.try_acquire(f"attempt {step.id} of the farm in {step.work.state}, {step.phase.value}"):
        words = f"{step.device_row.name} is held by {lock.holder()}"
        if time.monotonic() >= end:
            raise Cut(Outcome.INFRA_ERROR, f"{words} for more than {wait_s:g} s")
        step.say(f"its device: {words}")
        if checked:
            step.check()
        step.pause(0.1)
    try:
        step.say(None)
        yield
    finally:
        lock.release()
