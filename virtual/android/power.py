"""`reboot`, `uptime`, `dmesg`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError


async def reboot(call: Call) -> int | None:
    """`reboot [REASON]`."""
    asyncio.get_running_loop().create_task(call.android.reboot(" ".join(call.arguments) or "shell"))
    await asyncio.sleep(10)  # the command does not outlive the system
    return None


async def uptime(call: Call) -> int | None:
    """In toybox's format, of this boot; the load is the host's, which is where the CPU is."""
    seconds = int(float(Path("/proc/uptime").read_text().split()[0]))
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest // 60 % 60
    since = f"{days} day{'s' if days != 1 else ''}, " if days else ""
    load = ", ".join(Path("/proc/loadavg").read_text().split()[:3])
    await call.out(
        f" {time.strftime('%H:%M:%S')} up {since}{hours:2d}:{minutes:02d},  0 users,  load average: {load}\n"
    )
    return None


async def dmesg(call: Call) -> int | None:
    """The kernel buffer of the log daemon."""
    if call.arguments and call.arguments != ["-T"]:
        raise UsageError("usage: dmesg [-T]")
    logd, start = call.android.logd, call.android.booted_at
    for entry in logd.since(["kernel"], 0):
        await call.out(f"[{entry.monotonic_s - start:12.6f}] {entry.message}\n")
    return None


COMMANDS: dict[str, Handler] = {"reboot": reboot, "uptime": uptime, "dmesg": dmesg}
