"""The agents' channel: one outbound websocket per agent, kept open for as long as the agent lives.

    GET /api/channel   (websocket; frames of farm.domain.frames)

The agent says who it is in its first frame: host, incarnation, and the secret whose hash it wrote into the database
when it registered. So whoever may write there may speak for a host, and nobody else. When the channel closes the host
is lost at once, instead of after a silence; its next heartbeat in the database makes it heard of again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from farm.api.context import Context
from farm.domain.frames import MAX_STREAMS, Frame, FrameError, Kind, decode, told
from farm.store import hosts

log = logging.getLogger("farm.channel")

router = APIRouter()

#: An agent that has connected says who it is within so long, seconds.
HELLO_S = 10.0
#: Connections at a time that have not said who they are.
MAX_STRANGERS = 32
#: Frames of one stream that wait for their reader; a stream that is behind by more is closed.
BACKLOG = 256


class ChannelClosed(ConnectionError):
    """The host has no channel, or it closed."""


class Stream:
    """One stream to an agent, as the server's side has it."""

    def __init__(self, channel: Channel, number: int, lease: int) -> None:
        self._channel, self.number, self.lease = channel, number, lease
        self._arrived: asyncio.Queue[Frame] = asyncio.Queue(BACKLOG)

    async def send(self, data: bytes) -> None:
        await self._channel.send(Frame(Kind.DATA, self.number, self.lease, data))

    async def receive(self) -> bytes | None:
        """The next bytes; None at an ordinary end. Raises ChannelClosed with the reason of any other."""
        frame = await self._arrived.get()
        if frame.kind is Kind.DATA:
            return frame.payload
        if frame.payload:
            raise ChannelClosed(frame.payload.decode("utf-8", "replace"))
        return None

    def arrived(self, frame: Frame) -> bool:
        """Hand a frame to the reader; False when it is too far behind."""
        try:
            self._arrived.put_nowait(frame)
        except asyncio.QueueFull:
            return False
        return True

    def cut(self, reason: str) -> None:
        """The channel is gone: the reader hears of it, whatever else it had not read."""
        while not self.arrived(Frame(Kind.CLOSE, self.number, self.lease, reason.encode())):
            self._arrived.get_nowait()


class Channel:
    """The channel of one agent process."""

    def __init__(self, socket: WebSocket, host: str, incarnation: str) -> None:
        self._socket, self.host, self.incarnation = socket, host, incarnation
        self._numbers = itertools.count(1, 2)
        self._streams: dict[int, Stream] = {}
        self._sending = asyncio.Lock()

    async def send(self, frame: Frame) -> None:
        try:
            async with self._sending:
                await self._socket.send_bytes(frame.encode())
        except (RuntimeError, WebSocketDisconnect):
            raise ChannelClosed(f"the channel of {self.host} has closed") from None

    @asynccontextmanager
    async def open(self, service: str, lease: int = 0, **more: object) -> AsyncIterator[Stream]:
        """A stream to a service of the agent. Raises ChannelClosed."""
        if len(self._streams) >= MAX_STREAMS:
            raise ChannelClosed(f"{self.host} has {MAX_STREAMS} streams open already")
        stream = Stream(self, next(self._numbers), lease)
        self._streams[stream.number] = stream
        try:
            await self.send(told(Kind.OPEN, {"service": service, **more}, stream=stream.number, lease=lease))
            yield stream
        finally:
            if self._streams.pop(stream.number, None) is not None:
                try:
                    await self.send(Frame(Kind.CLOSE, stream.number, lease))
                except ChannelClosed:
                    log.debug("stream %d of %s ended with its channel", stream.number, self.host)

    async def serve(self) -> bool:
        """Read until the end; whether that was an orderly one."""
        try:
            while True:
                frame = decode(await self._socket.receive_bytes())
                if frame.kind is Kind.BYE:
                    return True
                if frame.kind is Kind.PING:
                    await self.send(Frame(Kind.PONG, frame.stream, frame.lease, frame.payload))
                elif frame.stream in self._streams:
                    self._hand_on(frame)
        except (WebSocketDisconnect, ChannelClosed, KeyError):
            return False
        except FrameError as error:
            log.warning("the agent of %s speaks no frames: %s", self.host, error)
            return False
        finally:
            for stream in list(self._streams.values()):
                stream.cut(f"the channel of {self.host} has closed")

    def _hand_on(self, frame: Frame) -> None:
        stream = self._streams[frame.stream]
        if frame.kind is Kind.CLOSE or not stream.arrived(frame):
            del self._streams[frame.stream]
            stream.cut(frame.payload.decode("utf-8", "replace") if frame.kind is Kind.CLOSE else "read too slowly")


class Channels:
    """The channels that this server holds, by host."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[str, Channel] = {}
        self._strangers = 0
        self.stopping = False  # closing them is then our own doing
        self.loop: asyncio.AbstractEventLoop | None = None  # where the streams live, once there is a channel

    def hosts(self) -> list[str]:
        """Whose agents are connected to this server."""
        return sorted(self._open)

    def of(self, host: str) -> Channel:
        """Raises ChannelClosed where the host's agent is not connected to this server."""
        try:
            return self._open[host]
        except KeyError:
            raise ChannelClosed(f"the agent of host {host!r} is not connected to this server") from None

    async def run(self, socket: WebSocket) -> None:
        """One connection, from its first frame to its end."""
        if self._strangers >= MAX_STRANGERS:
            await socket.close(1013, "too many agents say hello at once: try again")
            return
        await socket.accept()
        self._strangers += 1
        try:
            channel = await self._hello(socket)
        finally:
            self._strangers -= 1
        if channel is None:
            await _close(socket, 1008, "who are you? Register first, and say host, incarnation and secret")
            return
        log.info("the agent of %s (%s) is connected", channel.host, channel.incarnation)
        self.loop = asyncio.get_running_loop()
        self._open[channel.host] = channel
        orderly = False
        try:
            await channel.send(told(Kind.WELCOME, {"host": channel.host}))
            orderly = await channel.serve()
        except ChannelClosed:
            pass
        finally:
            if self._open.get(channel.host) is channel:
                del self._open[channel.host]
            await asyncio.shield(self._ended(channel, orderly))

    async def _hello(self, socket: WebSocket) -> Channel | None:
        try:
            async with asyncio.timeout(HELLO_S):
                frame = decode(await socket.receive_bytes())
            said = frame.json()
            host, incarnation, secret = (str(said[key]) for key in ("host", "incarnation", "secret"))
        except (TimeoutError, FrameError, KeyError, WebSocketDisconnect):
            return None
        if frame.kind is not Kind.HELLO or not await asyncio.to_thread(self._knows, host, incarnation, secret):
            return None
        return Channel(socket, host, incarnation)

    def _knows(self, host: str, incarnation: str, secret: str) -> bool:
        with self._context.db.read() as session:
            return hosts.speaks_for(session, host, incarnation, secret)

    async def _ended(self, channel: Channel, orderly: bool) -> None:
        if self.stopping:
            return
        if channel.host in self._open:
            return  # it has connected anew
        log.warning("the agent of %s is gone%s", channel.host, " (it said so)" if orderly else "")
        await asyncio.to_thread(self._lose, channel)

    def _lose(self, channel: Channel) -> None:
        with self._context.db.session() as session:
            hosts.lose(session, channel.host, self._context.db.now(session), channel.incarnation)


@router.websocket("/api/channel")
async def channel(socket: WebSocket) -> None:
    channels: Channels = socket.app.state.channels
    await channels.run(socket)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    try:
        await socket.close(code, reason)
    except RuntimeError:  # it is closed already
        return
