"""Commands of /system/bin that are ours: how one is called, and the socket where the calls arrive."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtual.android.system import Android

log = logging.getLogger(__name__)

SOCKET = "/dev/socket/services"
ARGUMENTS_MAX = 1 << 20


class UsageError(Exception):
    """Wrong arguments: the text goes to stderr, exit code 1."""


class Call:
    """One running command: its arguments, and where its output goes."""

    def __init__(self, android: Android, words: list[str], writer: asyncio.StreamWriter, pid: int) -> None:
        self.android = android
        self.name, self.cwd, self.log_tags, *self.arguments = words
        self.pid = pid
        self._writer = writer

    async def out(self, text: str | bytes) -> None:
        """Writes to the command's standard output; waits while it is not read."""
        await self._frame(1, text)

    async def err(self, text: str) -> None:
        """Writes a line to standard error."""
        await self._frame(2, text if text.endswith("\n") else text + "\n")

    async def exit(self, code: int) -> None:
        """Ends the command."""
        await self._frame(3, bytes([code & 0xFF]))

    async def _frame(self, kind: int, data: str | bytes) -> None:
        body = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        for start in range(0, max(len(body), 1), 1 << 16):
            piece = body[start : start + (1 << 16)]
            self._writer.write(bytes([kind]) + len(piece).to_bytes(4, "big") + piece)
            await self._writer.drain()


Handler = Callable[[Call], Awaitable[int | None]]
"""Does one command; its exit code, None for 0."""


class CallServer:
    """Takes calls from /system/bin."""

    def __init__(self, android: Android, handlers: dict[str, Handler]) -> None:
        self._android = android
        self._handlers = handlers

    async def start(self) -> None:
        """Opens the socket."""
        await asyncio.start_unix_server(self._serve, SOCKET)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        try:
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > ARGUMENTS_MAX:
                return
            words = (await reader.readexactly(length)).decode("utf-8", "surrogateescape").split("\0")
            if len(words) < 3:
                return
            call = Call(self._android, words, writer, pid)
            work = asyncio.ensure_future(self._run(call))
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _run(self, call: Call) -> None:
        handler = self._handlers.get(call.name)
        code: int | None = 127
        try:
            if handler is not None:
                code = await handler(call)
        except UsageError as error:
            await call.err(str(error))
            code = 1
        except ConnectionError:
            return
        except Exception:
            log.exception("%s failed", call.name)
            await call.err(f"{call.name}: internal error of the virtual device")
            code = 1
        await call.exit(code or 0)
