"""The agent channel: who may speak on it, what goes over it, and what its end means."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from farm.api.channel import Channel, ChannelClosed, Channels
from farm.domain import frames
from farm.domain.frames import Frame, FrameError, Kind, decode, told
from farm.store import hosts, tables
from farm.work.channel import AgentChannel, AgentStream, Identity, Offer, Refusal, echo
from tests.served import Served, serve
from tests.waiting import eventually

SECRET = "a secret that only the agent and the database know"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.fixture
def host(served: Served, request: pytest.FixtureRequest) -> str:
    """A host whose agent has registered."""
    name = f"h{zlib.crc32(request.node.name.encode())}"
    register(served, name)
    return name


def register(served: Served, name: str, incarnation: str = "one") -> None:
    with served.farm.db.session() as session:
        hosts.register(session, name, incarnation, SECRET, {}, served.farm.db.now(session))


def is_lost(served: Served, host: str) -> bool:
    with served.farm.db.read() as session:
        return session.get_one(tables.Host, host).lost_at is not None


def channel(served: Served, host: str, **more: object) -> AgentChannel:
    offers = {"echo": Offer(echo, needs_lease=False), "held": Offer(echo), "refuses": Offer(refuses, needs_lease=False)}
    identity = Identity(host, str(more.get("incarnation", "one")), str(more.get("secret", SECRET)), "1")
    return AgentChannel(identity, lambda: [served.origin], offers, lambda lease: lease == 17)


async def refuses(_stream: AgentStream) -> None:
    raise Refusal("not today")


@pytest.fixture
def connected(served: Served, host: str) -> Iterator[str]:
    agent = channel(served, host)
    agent.start()
    assert agent.connected.wait(60)
    eventually(lambda: host in served.farm.app.state.channels.hosts(), what="the server knows the channel")
    yield host
    agent.stop()


def on_server(served: Served, host: str, talk: Callable[[Channel], Awaitable[object]]) -> object:
    """Run the server's side of a talk in the server's own loop."""
    channels: Channels = served.farm.app.state.channels
    assert channels.loop is not None

    async def run() -> object:
        return await talk(channels.of(host))

    return asyncio.run_coroutine_threadsafe(run(), channels.loop).result(60)


def test_what_is_sent_to_the_echo_comes_back_on_many_streams_at_once(served: Served, connected: str) -> None:
    async def talk(channel: Channel) -> list[bytes]:
        async def one(n: int) -> bytes:
            async with channel.open("echo") as stream:
                heard = b""
                for part in (b"a", str(n).encode(), b"x" * 100_000):
                    await stream.send(part)
                    heard += await stream.receive() or b""
                return heard

        return list(await asyncio.gather(*(one(n) for n in range(20))))

    assert on_server(served, connected, talk) == [b"a" + str(n).encode() + b"x" * 100_000 for n in range(20)]


def test_a_stream_for_a_device_needs_an_open_lease_and_a_service_may_refuse(served: Served, connected: str) -> None:
    async def asked(channel: Channel, service: str, lease: int) -> str:
        async with channel.open(service, lease) as stream:
            await stream.send(b"hello")
            try:
                return str(await stream.receive())
            except ChannelClosed as closed:
                return str(closed)

    def answer(service: str, lease: int) -> object:
        return on_server(served, connected, lambda channel: asked(channel, service, lease))

    assert answer("held", 17) == "b'hello'"
    assert answer("held", 18) == "lease 18 is not open on a device of this host"
    assert answer("refuses", 0) == "not today"
    assert "no service 'shell'" in str(answer("shell", 0))


def test_a_host_is_lost_when_its_channel_closes_and_heard_of_with_its_next_heartbeat(served: Served, host: str) -> None:
    agent = channel(served, host)
    agent.start()
    eventually(lambda: host in served.farm.app.state.channels.hosts(), what="the channel is there")
    assert not is_lost(served, host)
    agent.stop()
    eventually(lambda: is_lost(served, host), what="the host is lost")
    with served.farm.db.session() as session:
        assert hosts.beat(session, host, served.farm.db.now(session))
    assert not is_lost(served, host)


def test_an_end_of_an_earlier_process_does_not_lose_the_host_of_a_later_one(served: Served, host: str) -> None:
    first = channel(served, host)
    first.start()
    eventually(lambda: host in served.farm.app.state.channels.hosts(), what="the first is connected")
    register(served, host, "two")
    first.stop()
    eventually(lambda: host not in served.farm.app.state.channels.hosts(), what="the first is gone")
    assert not is_lost(served, host)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"hello",
        told(Kind.HELLO, {"host": "h1"}).encode(),
        told(Kind.HELLO, {"host": "HOST", "incarnation": "one", "secret": "guessed"}).encode(),
        told(Kind.HELLO, {"host": "HOST", "incarnation": "zero", "secret": SECRET}).encode(),
        told(Kind.HELLO, {"host": "nobody", "incarnation": "one", "secret": SECRET}).encode(),
        told(Kind.OPEN, {"host": "HOST", "incarnation": "one", "secret": SECRET}).encode(),
        b"\0" * frames.MAX_FRAME,
    ],
)
def test_who_is_not_known_is_not_let_in(served: Served, host: str, first: bytes) -> None:
    address = served.origin.replace("http", "ws") + "/api/channel"
    with connect(address, max_size=None, proxy=None) as socket:
        socket.send(first.replace(b"HOST", host.encode()))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)
    assert host not in served.farm.app.state.channels.hosts()


def test_an_agent_takes_its_channel_up_again(served: Served, connected: str) -> None:
    before = served.farm.app.state.channels.of(connected)

    async def hang_up(channel: Channel) -> None:
        await channel._socket.close(1012)

    on_server(served, connected, hang_up)

    def is_back() -> bool:
        return served.farm.app.state.channels.of(connected) is not before

    eventually(lambda: connected in served.farm.app.state.channels.hosts() and is_back(), what="a new channel")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_an_error(message: bytes) -> None:
    try:
        frame = decode(message)
    except FrameError:
        return
    assert frame.encode() == message


@given(
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=1000),
)
def test_a_frame_comes_out_as_it_went_in(kind: Kind, stream: int, lease: int, payload: bytes) -> None:
    frame = Frame(kind, stream, lease, payload)
    assert decode(frame.encode()) == frame


def test_a_payload_that_is_too_long_is_no_frame() -> None:
    with pytest.raises(FrameError):
        Frame(Kind.DATA, payload=b"x" * (frames.MAX_PAYLOAD + 1)).encode()
    with pytest.raises(FrameError):
        decode(b"\1" * (frames.MAX_FRAME + 1))
