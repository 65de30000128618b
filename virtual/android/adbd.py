"""adbd's services on a virtual device, and how its commands are started."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from farm.adb.wire import shell, sync
from farm.adb.wire.server import Service, ServiceRegistry, Stream, StreamClosed
from virtual.android.spawner import SHELL

if TYPE_CHECKING:
    from virtual.android.system import Android

FEATURES = ("shell_v2", "cmd", *sync.FEATURES, "apex")


class Adbd:
    """The registry of one device."""

    def __init__(self, android: Android) -> None:
        self._android = android
        self.registry = ServiceRegistry()
        commands = shell.ShellService(android.spawner, SHELL)
        services: dict[str, Service] = {
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
        }
        for word, service in services.items():
            self.registry.add(word, service)

    @staticmethod
    def _say(text: str) -> Service:
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


class Doorkeeper:
    """Whom no key of this host pleases: adb lists the device as unauthorized, as long as its user does not say yes."""

    def token(self) -> bytes:
        return os.urandom(20)

    def accepts_signature(self, token: bytes, signature: bytes) -> bool:
        return False

    async def accepts_key(self, public_key: bytes) -> bool:
        return False


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
