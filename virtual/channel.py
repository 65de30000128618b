"""Messages between the parts of one device: JSON over a SOCK_SEQPACKET pair, optionally with file descriptors."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

MESSAGE_MAX = 60_000
"""Bytes of one message."""

FDS_MAX = 4

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

    def send(self, message: Message, *fds: int) -> bool:
        """Sends at once; False when the other end is gone or does not read."""
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self._socket, [data], fds)
        except OSError:
            return False
        return True

    def receive_now(self) -> tuple[Message, list[int]]:
        """The message that is there; raises `BlockingIOError` when none is, `EOFError` when the other end is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, MESSAGE_MAX, FDS_MAX)
        except ConnectionResetError:
            raise EOFError from None
        if not data:
            raise EOFError
        for fd in fds:
            os.set_inheritable(fd, False)
        return json.loads(data), list(fds)

    async def receive(self) -> tuple[Message, list[int]]:
        """The next message and its descriptors; raises `EOFError` when the other end is gone."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return self.receive_now()
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_reader(self._socket, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._socket)
