"""The agent's end of its channel: one outbound websocket to a server, taken up again for as long as the agent lives.

Servers ask for streams; each stream is one task that runs a named service. A stream for a device names its lease, which
is checked when the stream is opened. Nothing durable depends on the channel: without it, runs go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from farm.domain.frames import MAX_FRAME, MAX_STREAMS, Frame, FrameError, Kind, decode, told

log = logging.getLogger(__name__)

PATH = "/api/channel"
#: Pauses between two tries to connect, seconds: doubling, each shortened by chance so that agents do not come in step.
BACKOFF_S = (0.5, 15.0)
CONNECT_S = 10.0
#: The websocket's own pings: a server that does not answer them is left for another one, seconds.
PING_S = 5.0
#: Frames of one stream that wait for its service.
BACKLOG = 256


class AgentStream:
    """One stream as its service has it."""

    def __init__(self, send: Callable[[Frame], Awaitable[None]], opening: Frame) -> None:
        self._send, self.number, self.lease = send, opening.stream, opening.lease
        self.request: Mapping[str, Any] = opening.json()
        self.arrived: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)

    async def send(self, data: bytes) -> None:
        await self._send(Frame(Kind.DATA, self.number, self.lease, data))

    async def receive(self) -> bytes | None:
        """The next bytes from the server; None when it closed the stream."""
        return await self.arrived.get()


Service = Callable[[AgentStream], Awaitable[None]]


class Refusal(Exception):
    """A stream that is not served; the words are told to the server."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A service and whether it needs the lease of a device."""

    run: Service
    needs_lease: bool = True


async def echo(stream: AgentStream) -> None:
    """What comes goes back: shows that the way is open, and how long it takes."""
    while (data := await stream.receive()) is not None:
        await stream.send(data)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who speaks: what the agent registered with."""

    host: str
    incarnation: str
    secret: str
    protocol: str


class AgentChannel:
    """A thread with the connection in it. `servers` names the servers to try (http or https), best first."""

    def __init__(
        self,
        identity: Identity,
        servers: Callable[[], Sequence[str]],
        offers: Mapping[str, Offer],
        holds: Callable[[int], bool],
    ) -> None:
        """`holds` says whether a lease of this id is open on a device of this host; called outside the loop."""
        self._identity, self._servers, self._offers, self._holds = identity, servers, offers, holds
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.connected = threading.Event()

    def start(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="channel", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(ending.set)
        if self._thread is not None:
            self._thread.join(15)

    async def _run(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        pause = BACKOFF_S[0]
        while not self._stop.is_set():
            for url in await self._known():
                if await self._connection(url):
                    pause = BACKOFF_S[0]
                if self._stop.is_set():
                    return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, BACKOFF_S[1])

    async def _known(self) -> Sequence[str]:
        try:
            return await asyncio.to_thread(self._servers)
        except Exception as error:  # the database is away: it is asked again
            log.info("which servers there are is not known: %s", error)
            return ()

    async def _connection(self, url: str) -> bool:
        """One connection, from hello to its end; whether the server let us in."""
        address = url.replace("http", "ws", 1).rstrip("/") + PATH
        try:
            async with connect(
                address,
                open_timeout=CONNECT_S,
                ping_interval=PING_S,
                ping_timeout=PING_S * 2,
                close_timeout=2,
                max_size=MAX_FRAME,
                compression=None,
                proxy=None,
            ) as socket:
                return await _Conversation(socket, self._identity, self._offers, self._holds).run(
                    self._ending, self.connected
                )
        except (OSError, TimeoutError, WebSocketException, FrameError) as error:
            log.info("no channel to %s: %s", url, error)
            return False
        finally:
            self.connected.clear()


class _Conversation:
    def __init__(
        self,
        socket: ClientConnection,
        identity: Identity,
        offers: Mapping[str, Offer],
        holds: Callable[[int], bool],
    ) -> None:
        self._socket, self._identity, self._offers, self._holds = socket, identity, offers, holds
        self._streams: dict[int, tuple[AgentStream, asyncio.Task[None]]] = {}

    async def run(self, ending: asyncio.Event | None, connected: threading.Event) -> bool:
        me = self._identity
        hello = {"host": me.host, "incarnation": me.incarnation, "secret": me.secret, "protocol": me.protocol}
        await self.send(told(Kind.HELLO, hello))
        if decode(await asyncio.wait_for(self._socket.recv(), CONNECT_S)).kind is not Kind.WELCOME:
            raise FrameError("the server does not welcome us")
        connected.set()
        reading = asyncio.ensure_future(self._read())
        stopping = asyncio.ensure_future((ending or asyncio.Event()).wait())
        try:
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self.send(Frame(Kind.BYE))
        finally:
            for task in (reading, stopping, *(task for _, task in self._streams.values())):
                task.cancel()
            await asyncio.gather(reading, stopping, return_exceptions=True)
        return True

    async def send(self, frame: Frame) -> None:
        await self._socket.send(frame.encode())

    async def _read(self) -> None:
        async for message in self._socket:
            frame = decode(message)
            if frame.kind is Kind.PING:
                await self.send(Frame(Kind.PONG, frame.stream, frame.lease, frame.payload))
            elif frame.kind is Kind.OPEN:
                await self._open(frame)
            elif frame.stream in self._streams:
                self._hand_on(frame)

    async def _open(self, frame: Frame) -> None:
        if len(self._streams) >= MAX_STREAMS or frame.stream in self._streams:
            await self.send(Frame(Kind.CLOSE, frame.stream, frame.lease, b"too many streams"))
            return
        stream = AgentStream(self.send, frame)
        self._streams[frame.stream] = (stream, asyncio.ensure_future(self._serve(stream)))

    async def _serve(self, stream: AgentStream) -> None:
        reason = ""
        try:
            await (await self._offered(stream)).run(stream)
        except Refusal as refused:
            reason = str(refused)
        except ConnectionClosed:
            return
        except Exception as error:
            log.exception("the service %r failed", stream.request.get("service"))
            reason = f"{type(error).__name__}: {error}"
        finally:
            self._streams.pop(stream.number, None)
        with contextlib.suppress(ConnectionClosed):
            await self.send(Frame(Kind.CLOSE, stream.number, stream.lease, reason.encode()[:1000]))

    async def _offered(self, stream: AgentStream) -> Offer:
        name = str(stream.request.get("service"))
        offer = self._offers.get(name)
        if offer is None:
            raise Refusal(f"this agent has no service {name!r}; it has {', '.join(sorted(self._offers))}")
        if offer.needs_lease and not await asyncio.to_thread(self._holds, stream.lease):
            raise Refusal(f"lease {stream.lease} is not open on a device of this host")
        return offer

    def _hand_on(self, frame: Frame) -> None:
        stream, task = self._streams[frame.stream]
        try:
            stream.arrived.put_nowait(None if frame.kind is Kind.CLOSE else frame.payload)
        except asyncio.QueueFull:
            task.cancel()  # its service is too slow for what is sent: the stream ends, the channel goes on
            del self._streams[frame.stream]
