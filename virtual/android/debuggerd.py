"""`debuggerd [-b] PID`: stacks of a running process's threads."""

from __future__ import annotations

import os
import time

from virtual.android.calls import Call, Handler, UsageError


async def debuggerd(call: Call) -> int | None:
    """Real states and stacks; frames as far as the program keeps frame pointers."""
    words = [word for word in call.arguments if word not in ("-b", "--backtrace")]
    if len(words) != 1 or not words[0].isdigit():
        raise UsageError("usage: debuggerd [-b] PID")
    pid = int(words[0])
    if pid in (1, os.getpid(), call.android.spawner.pid):
        raise UsageError(f"debuggerd: pid {pid} belongs to the system")
    text = await call.android.spawner.backtrace(pid)
    if text is None:
        raise UsageError(f"debuggerd: failed to dump process {pid}: No such process")
    stamp = time.strftime("%Y-%m-%d %H:%M:%S+0000", time.gmtime())
    await call.out(f"----- pid {pid} at {stamp} -----\n{text}\n----- end {pid} -----\n")
    return None


COMMANDS: dict[str, Handler] = {"debuggerd": debuggerd}
