"""The declared fallback of the limiter: stops and continues the workload where no cgroup can hold it.

A bucket fills with the CPU time that the device has (its cores × real time) and empties with what the workload uses;
while it is overdrawn everything of the workload stands still. Coarser than CFS quota, but as slow in sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtual.android.system import Android

LOOK_S = 0.01
BURST_S = 0.02
"""How much unused time is saved up."""
PAUSE_MAX_S = 0.5


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, in ns (finer than the ticks of /proc/PID/stat)."""
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for task in os.scandir(f"/proc/{pid}/task"):
            total += int(Path(task.path, "schedstat").read_text().split()[0])
    return total


async def run(android: Android) -> None:
    """Limits the workload for as long as the system runs."""
    bucket_s, seen, last = 0.0, dict[int, int](), time.monotonic()
    while True:
        await asyncio.sleep(LOOK_S)
        cores = float(android.state()["cores"])
        pids = [one.pid for one in android.processes.all()]
        used = {pid: cpu_ns(pid) for pid in pids}
        now = time.monotonic()
        spent_s = sum(max(0, count - seen.get(pid, 0)) for pid, count in used.items()) / 1e9
        bucket_s = min(bucket_s + cores * (now - last), cores * BURST_S) - spent_s
        seen, last = used, now
        if bucket_s < 0:
            _signal(pids, signal.SIGSTOP)
            try:
                await asyncio.sleep(min(-bucket_s / cores, PAUSE_MAX_S))
            finally:
                _signal(pids, signal.SIGCONT)
                android.processes.stopped_s += time.monotonic() - now


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
