"""Device side of one adb transport: streams over a socket, each served by a handler.

The peer opens a stream with a service string (`shell,v2,raw:ls`, `sync:`, `tcp:8080`); the word before the first `:`
or `,` names the service in the registry. Either side may have one WRTE under way per stream and waits for its OKAY:
that is the protocol's back-pressure. The stock adb breaks it once: when its client has closed its end (`exec-in` at
the end of its input), what is left is sent at once, OKAY or not. So a stream keeps a few payloads, in order. When the
connection goes, every stream ends: reads give b"", writes raise `StreamClosed`, and handlers that do not return by
themselves are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from farm.adb.wire.packets import (
    MAX_PAYLOAD,
    VERSION_MIN,
    VERSION_SKIP_CHECKSUM,
    AuthKind,
    Banner,
    Command,
    Packet,
    PacketReader,
    ProtocolError,
    encode_header,
)

log = logging.getLogger(__name__)

Payload = bytes | bytearray | memoryview

UNACKNOWLEDGED_MAX = 64
"""Payloads of one stream that nobody has read yet; the stock adb sends at most what its socket held, a few."""


class StreamClosed(Exception):
    """The peer or the connection is gone; nothing more can be sent on this stream."""


class Service(Protocol):
    """Serves one stream until it returns. A handler that returns without accept, read or write refuses the stream."""

    def __call__(self, stream: Stream, service: str) -> Coroutine[Any, Any, None]: ...


class Authenticator(Protocol):
    """Decides who may use a transport. Without one everybody who reaches the socket may."""

    def token(self) -> bytes:
        """Twenty fresh random bytes for the peer to sign."""

    def accepts_signature(self, token: bytes, signature: bytes) -> bool:
        """Whether `signature` over `token` is by a key that may enter."""

    def accepts_key(self, public_key: bytes) -> Awaitable[bool]:
        """Whether a key that is offered after its signatures failed may enter (a phone would ask its user)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may hold."""

    streams: int = 256
    pending_bytes: int = 64 << 20
    """Received and not yet read by handlers; above it the socket is not read until handlers catch up."""
    handler_grace_s: float = 5.0
    """How long handlers may take to return after the connection is gone."""


@dataclass(slots=True)
class ServiceRegistry:
    """Service word → handler."""

    services: dict[str, Service] = field(default_factory=dict)

    def add(self, word: str, service: Service) -> None:
        """Registers the handler for service strings that start with `word`."""
        self.services[word] = service

    def find(self, service: str) -> Service | None:
        """The handler for a full service string."""
        return self.services.get(re.split("[:,]", service, maxsplit=1)[0])


class Stream:
    """One bidirectional byte stream of a connection."""

    def __init__(self, connection: Connection, local_id: int, remote_id: int) -> None:
        self.local_id = local_id
        self.remote_id = remote_id
        self._connection = connection
        self._incoming: deque[Payload] = deque()
        self._readable = asyncio.Event()
        self._sendable = asyncio.Event()
        self._sendable.set()
        self._write_lock = asyncio.Lock()
        self.accepted = False
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether the stream has ended, whoever ended it."""
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        """Returns when the peer or the connection has ended the stream."""
        await self._closed.wait()

    def accept(self) -> None:
        """Tells the peer that the service is there; reading and writing imply it."""
        if not self.accepted and not self.closed:
            self.accepted = True
            self._connection.send(Command.OKAY, self.local_id, self.remote_id)

    async def read(self) -> Payload:
        """The next payload, b"" when the stream has ended."""
        self.accept()
        while not self._incoming:
            if self.closed:
                return b""
            self._readable.clear()
            await self._readable.wait()
        payload = self._incoming.popleft()
        self._connection.consumed(len(payload))
        if not self.closed:
            self._connection.send(Command.OKAY, self.local_id, self.remote_id)
        return payload

    async def write(self, data: Payload) -> None:
        """Sends all of `data`; returns when the last piece is on its way and the socket takes more."""
        self.accept()
        view = memoryview(data)
        async with self._write_lock:
            for start in range(0, len(view), self._connection.maxdata):
                await self._sendable.wait()
                if self.closed:
                    raise StreamClosed
                self._sendable.clear()
                chunk = view[start : start + self._connection.maxdata]
                self._connection.send(Command.WRTE, self.local_id, self.remote_id, chunk)
                await self._connection.drain()

    def on_write(self, payload: Payload) -> bool:
        """Takes a received WRTE; False when the peer keeps sending without waiting for our OKAYs."""
        if len(self._incoming) >= UNACKNOWLEDGED_MAX or not self.accepted:
            return False
        self._incoming.append(payload)
        self._readable.set()
        return True

    def on_okay(self) -> None:
        """The peer took our last payload."""
        self._sendable.set()

    def on_close(self) -> None:
        """The stream is over; what was received before stays readable."""
        self._closed.set()
        self._readable.set()
        self._sendable.set()

    def discard(self) -> int:
        """Forgets received payloads that nobody read; their size together."""
        size = sum(map(len, self._incoming))
        self._incoming.clear()
        return size


class Connection(asyncio.BufferedProtocol):
    """One accepted transport. Hand the class to the event loop as its protocol."""

    def __init__(
        self,
        banner: Callable[[], bytes],
        registry: ServiceRegistry,
        limits: Limits = Limits(),
        authenticator: Authenticator | None = None,
        on_lost: Callable[[Connection], None] | None = None,
    ) -> None:
        self.maxdata = MAX_PAYLOAD
        self.peer: Banner | None = None
        self._banner = banner
        self._registry = registry
        self._limits = limits
        self._authenticator = authenticator
        self._on_lost = on_lost
        self._token = b""
        self._reader = PacketReader()
        self._checksum = True
        self._skip_checksum = False
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_id = 0
        self._pending_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=2 * MAX_PAYLOAD)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            packet = self._reader.buffer_updated(nbytes)
            if packet is not None:
                self._dispatch(packet)
        except ProtocolError as error:
            log.warning("adb transport closed: %s", error)
            self.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for stream in list(self._streams.values()):
            stream.on_close()
        self._streams.clear()
        self._writable.set()
        if self._tasks:
            asyncio.get_running_loop().call_later(self._limits.handler_grace_s, self._cancel_handlers)
        if self._on_lost is not None:
            self._on_lost(self)

    def _cancel_handlers(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- for streams and owners

    def abort(self) -> None:
        """Drops the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def send(self, command: Command, arg0: int, arg1: int, payload: Payload = b"") -> None:
        """Queues one packet; silently nothing when the connection is gone."""
        if self._transport is None:
            return
        header = encode_header(command, arg0, arg1, payload, self._checksum)
        if len(payload) > 4096:
            self._transport.write(header)
            self._transport.write(payload)
        else:
            self._transport.write(b"".join((header, payload)))

    async def drain(self) -> None:
        """Waits until the socket takes more."""
        await self._writable.wait()

    def consumed(self, count: int) -> None:
        """A handler took `count` received bytes."""
        before, self._pending_bytes = self._pending_bytes, self._pending_bytes - count
        if before > self._limits.pending_bytes >= self._pending_bytes and self._transport is not None:
            self._transport.resume_reading()

    # --- packets

    def _dispatch(self, packet: Packet) -> None:
        if packet.command is Command.CNXN:
            self._on_connect(packet)
        elif packet.command is Command.AUTH:
            self._on_auth(packet)
        elif self.peer is None or self._token:
            raise ProtocolError(f"{packet.command.name} before the connection was agreed")
        elif packet.command is Command.OPEN:
            self._on_open(packet)
        elif packet.command in (Command.OKAY, Command.WRTE, Command.CLSE):
            self._on_stream_packet(packet)
        else:
            raise ProtocolError(f"{packet.command.name} is not offered")

    def _on_connect(self, packet: Packet) -> None:
        if self.peer is not None:
            raise ProtocolError("second CNXN")
        if packet.arg0 < VERSION_MIN or packet.arg1 == 0:
            raise ProtocolError(f"CNXN with version {packet.arg0:#x}, maxdata {packet.arg1}")
        self.peer = Banner.parse(packet.payload)
        self.maxdata = min(packet.arg1, MAX_PAYLOAD)
        self._skip_checksum = packet.arg0 >= VERSION_SKIP_CHECKSUM
        if self._authenticator is None:
            self._welcome()
        else:
            self._challenge()

    def _welcome(self) -> None:
        self._token = b""
        self.send(Command.CNXN, VERSION_SKIP_CHECKSUM, MAX_PAYLOAD, self._banner())
        self._checksum = self._reader.checksum = not self._skip_checksum

    def _challenge(self) -> None:
        assert self._authenticator is not None
        self._token = self._authenticator.token()
        # An adb that comes again sends no checksums from its first packet on: it remembers who we are.
        self._reader.checksum = not self._skip_checksum
        self.send(Command.AUTH, AuthKind.TOKEN, 0, self._token)

    def _on_auth(self, packet: Packet) -> None:
        if self._authenticator is None or not self._token:
            raise ProtocolError("AUTH that nobody asked for")
        if packet.arg0 == AuthKind.SIGNATURE:
            if self._authenticator.accepts_signature(self._token, bytes(packet.payload)):
                self._welcome()
            else:
                self._challenge()
        elif packet.arg0 == AuthKind.RSA_PUBLIC_KEY:
            self._start(self._offer_key(bytes(packet.payload)))
        else:
            raise ProtocolError(f"AUTH of unknown kind {packet.arg0}")

    async def _offer_key(self, public_key: bytes) -> None:
        assert self._authenticator is not None
        if await self._authenticator.accepts_key(public_key):
            self._welcome()

    def _on_open(self, packet: Packet) -> None:
        service = bytes(packet.payload).rstrip(b"\0").decode("utf-8", "replace")
        handler = self._registry.find(service)
        if handler is None or packet.arg0 == 0 or len(self._streams) >= self._limits.streams:
            self.send(Command.CLSE, 0, packet.arg0)
            return
        self._next_id = self._next_id % 0xFFFFFFFF + 1
        stream = Stream(self, self._next_id, packet.arg0)
        self._streams[stream.local_id] = stream
        self._start(self._serve(handler, stream, service))

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, handler: Service, stream: Stream, service: str) -> None:
        try:
            await handler(stream, service)
        except StreamClosed:
            pass
        except Exception:
            log.exception("service %.200r failed", service)
        finally:
            self._end(stream)
            self.consumed(stream.discard())

    def _end(self, stream: Stream) -> None:
        if self._streams.pop(stream.local_id, None) is not None:
            self.send(Command.CLSE, stream.local_id if stream.accepted else 0, stream.remote_id)
            stream.on_close()

    def _on_stream_packet(self, packet: Packet) -> None:
        stream = self._streams.get(packet.arg1)
        if stream is None or stream.remote_id != packet.arg0:
            # Late packets of a stream that just ended are normal; only data deserves an answer.
            if packet.command is Command.WRTE:
                self.send(Command.CLSE, 0, packet.arg0)
            return
        if packet.command is Command.OKAY:
            stream.on_okay()
        elif packet.command is Command.CLSE:
            self.send(Command.CLSE, stream.local_id, stream.remote_id)
            self._streams.pop(stream.local_id)
            stream.on_close()
        elif stream.on_write(packet.payload):
            self._pending_bytes += len(packet.payload)
            if self._pending_bytes > self._limits.pending_bytes and self._transport is not None:
                self._transport.pause_reading()
        else:
            log.warning("stream %d closed: its peer sends without waiting for an answer", stream.local_id)
            self._end(stream)
