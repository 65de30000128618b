"""Messages between the parts of one device: JSON over a SOCK_SEQPACKET pair, optionally with one file descriptor."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

MESSAGE_MAX = 60_000
"""Bytes of one message."""

Message = dict[str, Any]


class Channel:
    """One end of a pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Our end, and the other one to be inherited by a child."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """The inherited end."""
        os.set_inheritable(fd, True)
        return cls(socket.socket(fileno=fd))

    def send(self, message: Message, fd: int | None = None) -> bool:
        """Sends at once; False when the other end is gone or does not read."""
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self._socket, [data], [] if fd is None else [fd])
        except OSError:
            return False
        return True

    async def receive(self) -> tuple[Message, int | None]:
        """The next message and its descriptor; raises `EOFError` when the other end is gone."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, MESSAGE_MAX, 1)
                break
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_reader(self._socket, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._socket)
            except ConnectionResetError:
                raise EOFError from None
        if not data:
            raise EOFError
        for fd in fds:
            os.set_inheritable(fd, False)
        return json.loads(data), fds[0] if fds else None
