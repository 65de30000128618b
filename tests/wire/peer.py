"""A small adb host for tests: opens streams on a `Connection` over a real socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from farm.adb.wire.packets import MAX_PAYLOAD, VERSION_SKIP_CHECKSUM, Command, Packet, PacketReader
from farm.adb.wire.server import Authenticator, Connection, Limits, ServiceRegistry

WAIT_S = 30.0
DEFAULT_LIMITS = Limits()


class Peer:
    """The host's side; sends packets and waits for the ones that come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection) -> None:
        self._reader = reader
        self._writer = writer
        self._packets = PacketReader(checksum=False)
        self._received: list[Packet] = []
        self.connection = connection

    def send(self, command: Command, arg0: int = 0, arg1: int = 0, payload: bytes = b"") -> None:
        """Sends one packet, with its checksum."""
        self._writer.write(Packet(command, arg0, arg1, payload).encode())

    def send_raw(self, data: bytes) -> None:
        """Sends anything."""
        self._writer.write(data)

    async def receive(self) -> Packet | None:
        """The next packet; None when the connection has been closed."""
        while not self._received:
            data = await asyncio.wait_for(self._reader.read(1 << 16), WAIT_S)
            if not data:
                return None
            self._received += list(self._packets.feed(data))
        return self._received.pop(0)

    async def expect(self, command: Command) -> Packet:
        """The next packet, which must be this one."""
        packet = await self.receive()
        assert packet is not None, f"closed instead of {command.name}"
        assert packet.command is command, f"{packet} instead of {command.name}"
        return packet

    async def connect(self) -> Packet:
        """Greets, as adb does."""
        self.send(Command.CNXN, VERSION_SKIP_CHECKSUM, MAX_PAYLOAD, b"host::features=shell_v2")
        return await self.expect(Command.CNXN)

    async def open(self, service: str, local_id: int = 1) -> int:
        """Opens a stream; the device's id of it."""
        self.send(Command.OPEN, local_id, 0, service.encode() + b"\0")
        return (await self.expect(Command.OKAY)).arg0

    async def exchange(self, remote_id: int, data: bytes, local_id: int = 1) -> None:
        """Sends data and waits for its acknowledgement."""
        self.send(Command.WRTE, local_id, remote_id, data)
        await self.expect(Command.OKAY)

    async def read_to_end(self, remote_id: int, local_id: int = 1) -> bytes:
        """Everything that the stream sends until it closes."""
        parts = bytearray()
        while (packet := await self.receive()) is not None and packet.command is not Command.CLSE:
            if packet.command is Command.WRTE:
                parts += packet.payload
                self.send(Command.OKAY, local_id, remote_id)
        return bytes(parts)


@asynccontextmanager
async def serve(
    registry: ServiceRegistry, limits: Limits = DEFAULT_LIMITS, authenticator: Authenticator | None = None
) -> AsyncIterator[Peer]:
    """A device with these services, and a host connected to it."""
    ours, theirs = socket.socketpair()
    connection = Connection(lambda: b"device::ro.product.name=test;features=shell_v2", registry, limits, authenticator)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield Peer(reader, writer, connection)
    finally:
        writer.close()
        connection.abort()
