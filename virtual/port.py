"""A device's TCP port on this machine: it can be closed and opened again, as a cable is pulled and put back."""

from __future__ import annotations

import asyncio
import contextlib
import socket


class Port:
    """A listening TCP port that can be closed and opened again without losing its number."""

    def __init__(self, port: int | None, first: int = 5600) -> None:
        self._listener, self.number = self._bind(port, first)
        self._listening = False

    @staticmethod
    def _bind(port: int | None, first: int) -> tuple[socket.socket, int]:
        for candidate in [port] if port is not None else range(first, first + 400):
            listener = socket.socket()
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections may linger
            try:
                listener.bind(("127.0.0.1", candidate))
            except OSError:
                listener.close()
                continue
            # From here on nobody else may bind it, not even while we do not listen.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            return listener, candidate
        raise OSError(f"port {port} of 127.0.0.1 is taken" if port else f"no free port from {first} on")

    def open(self) -> None:
        """Connections are taken from now on."""
        if not self._listening:
            # The kernel checks the number again: connections of the time before may linger, so allow those, for now.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.listen(16)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            self._listening = True

    def close(self) -> None:
        """Connections are refused from now on; the number stays ours."""
        if self._listening:
            self._listening = False
            self._listener.shutdown(socket.SHUT_RDWR)

    async def accept(self) -> socket.socket:
        """The next connection."""
        loop = asyncio.get_running_loop()
        while True:
            if self._listening:
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:
                    pass
                else:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    return connection
            ready = asyncio.Event()
            loop.add_reader(self._listener, ready.set)
            try:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ready.wait(), 0.2)
            finally:
                loop.remove_reader(self._listener)
