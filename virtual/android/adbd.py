"""adbd's services on a virtual device, and how its commands are started."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from farm.adb.wire import shell, sync
from farm.adb.wire.server import ServiceRegistry, Stream, StreamClosed

if TYPE_CHECKING:
    from virtual.android.system import Android

SHELL = "/system/bin/sh"
FEATURES = ("shell_v2", "cmd", *sync.FEATURES, "apex")
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


class WorkloadSpawner:
    """Starts commands in the cgroup of the workload."""

    def __init__(self, cgroup_fds: list[int]) -> None:
        self._cgroup_fds = cgroup_fds
        self.delay_s = 0.0

    async def spawn(self, command: shell.Command) -> shell.Process:
        """Starts it, later when the shell is made slow."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)

        def enter() -> None:
            for fd in self._cgroup_fds:
                os.write(fd, b"0")
            if command.pty:
                shell.take_terminal()

        return await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=command.stdin,
            stdout=command.stdout,
            stderr=command.stderr,
            env=ENVIRONMENT | command.environment,
            cwd="/",
            start_new_session=True,
            preexec_fn=enter,
        )


class Adbd:
    """The registry of one device."""

    def __init__(self, android: Android, cgroup_fds: list[int]) -> None:
        self._android = android
        self._spawner = WorkloadSpawner(cgroup_fds)
        self.registry = ServiceRegistry()
        commands = shell.ShellService(self._spawner, SHELL)
        for word, service in {
            "shell": commands,
            "exec": commands,
            "sync": sync.SyncService(sync.RootedTree(Path("/"))),
            "reboot": self._reboot,
            "root": self._say("adbd cannot run as root in production builds\n"),
            "unroot": self._say("adbd not running as root\n"),
            "remount": self._say("remount failed: the system of a virtual device is read-only\n"),
            "tcp": self._connect_tcp,
            "localfilesystem": self._connect_unix,
            "localabstract": self._connect_unix,
            "local": self._connect_unix,
        }.items():
            self.registry.add(word, service)

    def set_delay(self, delay_s: float) -> None:
        """Every command starts this much later."""
        self._spawner.delay_s = delay_s

    @staticmethod
    def _say(text: str):  # type: ignore[no-untyped-def]
        async def answer(stream: Stream, service: str) -> None:
            await stream.write(text.encode())

        return answer

    async def _reboot(self, stream: Stream, service: str) -> None:
        stream.accept()
        target = service.partition(":")[2]
        if target not in ("", "userspace", "bootloader", "recovery"):
            target = "adb"
        asyncio.get_running_loop().create_task(self._android.reboot(target or "adb"))
        await stream.wait_closed()

    async def _connect_tcp(self, stream: Stream, service: str) -> None:
        match = re.fullmatch(r"tcp:(?:(?:localhost|127\.0\.0\.1):)?(\d{1,5})(?::(?:localhost|127\.0\.0\.1))?", service)
        if match is None:
            return
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(match[1]))
        except (OSError, OverflowError):
            return
        await relay(stream, reader, writer)

    async def _connect_unix(self, stream: Stream, service: str) -> None:
        kind, _, name = service.partition(":")
        address = "\0" + name if kind == "localabstract" else name
        end = socket.socket(socket.AF_UNIX)
        end.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(end, address)
        except (OSError, ValueError):
            end.close()
            return
        reader, writer = await asyncio.open_unix_connection(sock=end)
        await relay(stream, reader, writer)


async def relay(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes bytes both ways until one side ends."""

    async def inwards() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()

    async def outwards() -> None:
        while data := await reader.read(1 << 18):
            await stream.write(data)

    stream.accept()
    tasks = [asyncio.create_task(inwards()), asyncio.create_task(outwards())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, (StreamClosed, ConnectionError)):
                raise result
