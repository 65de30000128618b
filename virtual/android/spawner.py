"""The system's side of the zygote: commands as awaitable processes, crashes and stacks."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from farm.adb.wire.shell import Command
from virtual.channel import Channel, Message
from virtual.sandbox import python_command

BACKTRACE_S = 60.0
SHELL = "/system/bin/sh"
ENVIRONMENT = {
    "PATH": "/system/bin",
    "HOME": "/",
    "USER": "shell",
    "LOGNAME": "shell",
    "SHELL": SHELL,
    "HOSTNAME": "localhost",
    "TMPDIR": "/data/local/tmp",
    "ANDROID_ROOT": "/system",
    "ANDROID_DATA": "/data",
    "EXTERNAL_STORAGE": "/sdcard",
}


@dataclass
class ZygoteProcess:
    """A command that the zygote has started."""

    pid: int
    _code: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def wait(self) -> int:
        """Exit code, or minus the signal that ended it."""
        return await asyncio.shield(self._code)

    def ended(self, code: int) -> None:
        """The zygote has seen its end."""
        if not self._code.done():
            self._code.set_result(code)


class ZygoteSpawner:
    """Starts commands in the zygote."""

    def __init__(self, cgroup_fds: list[int], on_crash: Callable[[Message], None]) -> None:
        self._cgroup_fds = cgroup_fds
        self._on_crash = on_crash
        self._channel: Channel | None = None
        self._numbers = itertools.count(1)
        self._starting: dict[int, asyncio.Future[ZygoteProcess]] = {}
        self._running: dict[int, ZygoteProcess] = {}
        self._backtraces: dict[int, asyncio.Future[str | None]] = {}
        self.pid = 0
        self.delay_s = 0.0
        self.free = asyncio.Event()  # cleared: the system hangs, and commands wait for it to go on
        self.free.set()

    async def start(self) -> None:
        """Starts the zygote; without it there is no system, so its end ends us."""
        self._channel, theirs = Channel.pair()
        fds = [theirs.fileno(), *self._cgroup_fds]
        command = python_command("virtual.android.zygote", *map(str, fds), program="zygote64")
        process = await asyncio.create_subprocess_exec(*command, pass_fds=fds, stdin=asyncio.subprocess.DEVNULL)
        theirs.close()
        self.pid = process.pid
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._channel is not None
        try:
            while True:
                message, _ = await self._channel.receive()
                self._on_message(message)
        except EOFError:
            os._exit(1)

    def _on_message(self, message: Message) -> None:
        if message["op"] == "spawned":
            process = self._running[message["id"]] = ZygoteProcess(message["pid"])
            future = self._starting.pop(message["id"])
            if not future.done():
                future.set_result(process)
        elif message["op"] == "exited":
            self._running.pop(message["id"]).ended(message["code"])
        elif message["op"] == "crash":
            self._on_crash(message)
        elif message["op"] == "backtraced":
            waiting = self._backtraces.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message["text"])

    async def spawn(self, command: Command) -> ZygoteProcess:
        """Starts a command, later when the shell is made slow."""
        assert self._channel is not None
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self.free.wait()
        number = next(self._numbers)
        future: asyncio.Future[ZygoteProcess] = asyncio.get_running_loop().create_future()
        self._starting[number] = future
        message: Message = {"op": "spawn", "id": number, "argv": list(command.argv), "pty": command.pty}
        message["environment"] = ENVIRONMENT | command.environment
        if not self._channel.send(message, command.stdin, command.stdout, command.stderr):
            del self._starting[number]
            raise OSError(f"the command line is too long or the system is busy: {command.argv[-1][:80]!r}…")
        return await future

    async def backtrace(self, pid: int) -> str | None:
        """Stacks of a process's threads, None when there is no such process."""
        assert self._channel is not None
        number = next(self._numbers)
        future = self._backtraces[number] = asyncio.get_running_loop().create_future()
        self._channel.send({"op": "backtrace", "id": number, "pid": pid})
        return await asyncio.wait_for(future, BACKTRACE_S)
