"""Streams of one adb transport: opening, back-pressure, ends, limits and hostile peers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.adb.wire.packets import AuthKind, Command, Packet
from farm.adb.wire.server import UNACKNOWLEDGED_MAX, Limits, ServiceRegistry, Stream, StreamClosed
from tests.wire.peer import Peer, serve


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def echo(stream: Stream, service: str) -> None:
    while data := await stream.read():
        await stream.write(data)


def registry(**services: Any) -> ServiceRegistry:
    return ServiceRegistry(dict(services))


def test_a_service_is_found_by_the_word_before_colon_or_comma() -> None:
    async def other(stream: Stream, service: str) -> None: ...

    found = registry(shell=echo, tcp=other)
    assert found.find("shell,v2,TERM=xterm,raw:ls: x") is echo
    assert found.find("tcp:80") is other
    assert found.find("tcpip:80") is None


def test_data_comes_back_in_order_and_the_stream_closes_cleanly() -> None:
    async def work() -> None:
        async with serve(registry(echo=echo)) as peer:
            await peer.connect()
            remote = await peer.open("echo:")
            for data in (b"one", b"two" * 1000):
                peer.send(Command.WRTE, 1, remote, data)
                answers = {(await peer.receive()).command: None for _ in range(2)}  # type: ignore[union-attr]
                assert set(answers) == {Command.OKAY, Command.WRTE}
                peer.send(Command.OKAY, 1, remote)
            peer.send(Command.CLSE, 1, remote)
            await peer.expect(Command.CLSE)

    run(work())


def test_an_unknown_service_is_refused() -> None:
    async def work() -> None:
        async with serve(registry(echo=echo)) as peer:
            await peer.connect()
            peer.send(Command.OPEN, 7, 0, b"nonsense:\0")
            packet = await peer.expect(Command.CLSE)
            assert (packet.arg0, packet.arg1) == (0, 7)

    run(work())


def test_a_writer_waits_for_the_peer_to_acknowledge() -> None:
    sent: list[int] = []

    async def talker(stream: Stream, service: str) -> None:
        for number in range(5):
            await stream.write(bytes([number]))
            sent.append(number)

    async def work() -> None:
        async with serve(registry(talk=talker)) as peer:
            await peer.connect()
            remote = await peer.open("talk:")
            for number in range(5):
                assert bytes((await peer.expect(Command.WRTE)).payload) == bytes([number])
                assert len(sent) <= number + 1
                peer.send(Command.OKAY, 1, remote)
            await peer.expect(Command.CLSE)

    run(work())


def test_a_peer_that_does_not_wait_for_the_acknowledgement_loses_the_stream() -> None:
    async def deaf(stream: Stream, service: str) -> None:
        stream.accept()
        await stream.wait_closed()

    async def work() -> None:
        async with serve(registry(deaf=deaf)) as peer:
            await peer.connect()
            remote = await peer.open("deaf:")
            for _ in range(UNACKNOWLEDGED_MAX + 1):
                peer.send(Command.WRTE, 1, remote, b"more")
            await peer.expect(Command.CLSE)

    run(work())


def test_what_the_stock_adb_sends_unacknowledged_at_its_end_is_kept_in_order() -> None:
    taken: list[bytes] = []

    async def slow(stream: Stream, service: str) -> None:
        stream.accept()
        await stream.wait_closed()
        while payload := await stream.read():
            taken.append(bytes(payload))

    async def work() -> None:
        async with serve(registry(slow=slow)) as peer:
            await peer.connect()
            remote = await peer.open("slow:")
            sent = [bytes([number]) * 1000 * number for number in range(1, 10)]
            for payload in sent:
                peer.send(Command.WRTE, 1, remote, payload)
            peer.send(Command.CLSE, 1, remote)
            await peer.expect(Command.CLSE)
            while len(taken) < len(sent):
                await asyncio.sleep(0.01)
            assert taken == sent

    run(work())


def test_streams_are_limited_and_pending_bytes_stop_the_reading() -> None:
    async def deaf(stream: Stream, service: str) -> None:
        stream.accept()
        await stream.wait_closed()

    async def work() -> None:
        async with serve(registry(deaf=deaf), Limits(streams=2, pending_bytes=100_000)) as peer:
            await peer.connect()
            first, second = await peer.open("deaf:", 1), await peer.open("deaf:", 2)
            peer.send(Command.OPEN, 3, 0, b"deaf:\0")
            assert (await peer.expect(Command.CLSE)).arg1 == 3
            peer.send(Command.WRTE, 1, first, bytes(150_000))
            transport = peer.connection._transport
            assert transport is not None
            while transport.is_reading():
                await asyncio.sleep(0.01)
            peer.send(Command.CLSE, 2, second)  # not read while the device holds too much

    run(work())


def test_a_lost_connection_ends_readers_and_writers_and_cancels_the_rest() -> None:
    ends: list[str] = []

    async def reader(stream: Stream, service: str) -> None:
        assert await stream.read() == b""
        ends.append("reader")

    async def writer(stream: Stream, service: str) -> None:
        try:
            while True:
                await stream.write(bytes(1000))
        except StreamClosed:
            ends.append("writer")

    async def sleeper(stream: Stream, service: str) -> None:
        stream.accept()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ends.append("sleeper")
            raise

    async def work() -> None:
        async with serve(registry(r=reader, w=writer, s=sleeper), Limits(handler_grace_s=0.05)) as peer:
            await peer.connect()
            for number, name in enumerate("rws", 1):
                peer.send(Command.OPEN, number, 0, name.encode() + b":\0")
            await peer.expect(Command.OKAY)
            peer.connection.abort()
            while len(ends) < 3:
                await asyncio.sleep(0.01)

    run(work())
    assert sorted(ends) == ["reader", "sleeper", "writer"]


class Keys:
    """Accepts one signature and one key."""

    def token(self) -> bytes:
        return bytes(range(20))

    def accepts_signature(self, token: bytes, signature: bytes) -> bool:
        return token == self.token() and signature == b"good"

    async def accepts_key(self, public_key: bytes) -> bool:
        return public_key == b"known key"


@pytest.mark.parametrize("way", ["signature", "key"])
def test_with_an_authenticator_only_a_good_signature_or_key_gets_in(way: str) -> None:
    async def work() -> None:
        async with serve(registry(echo=echo), authenticator=Keys()) as peer:
            peer.send(Command.CNXN, 0x01000001, 1 << 20, b"host::")
            assert bytes((await peer.expect(Command.AUTH)).payload) == bytes(range(20))
            peer.send(Command.AUTH, AuthKind.SIGNATURE, 0, b"bad")
            await peer.expect(Command.AUTH)
            if way == "signature":
                peer.send(Command.AUTH, AuthKind.SIGNATURE, 0, b"good")
            else:
                peer.send(Command.AUTH, AuthKind.RSA_PUBLIC_KEY, 0, b"known key")
            await peer.expect(Command.CNXN)
            await peer.open("echo:")

    run(work())


def test_an_adb_that_comes_again_authenticates_without_checksums() -> None:
    """It remembers from its first connection that we need none, and leaves them out from the first AUTH on."""

    async def work() -> None:
        async with serve(registry(echo=echo), authenticator=Keys()) as peer:
            peer.send(Command.CNXN, 0x01000001, 1 << 20, b"host::")
            await peer.expect(Command.AUTH)
            peer.send_raw(Packet(Command.AUTH, AuthKind.SIGNATURE, 0, b"good").encode(checksum=False))
            await peer.expect(Command.CNXN)
            await peer.open("echo:")

    run(work())


def test_nothing_opens_before_the_authenticator_has_agreed() -> None:
    async def work() -> None:
        async with serve(registry(echo=echo), authenticator=Keys()) as peer:
            peer.send(Command.CNXN, 0x01000001, 1 << 20, b"host::")
            await peer.expect(Command.AUTH)
            peer.send(Command.OPEN, 1, 0, b"echo:\0")
            assert await peer.receive() is None

    run(work())


commands = st.tuples(
    st.sampled_from(Command), st.integers(0, 3), st.integers(0, 3), st.sampled_from([b"", b"echo:\0", b"x" * 5000])
)


async def _survives(peer: Peer, sent: list[tuple[Command, int, int, bytes]], tail: bytes) -> None:
    await peer.connect()
    for command, arg0, arg1, payload in sent:
        peer.send(command, arg0, arg1, payload)
    peer.send_raw(tail)
    peer._writer.write_eof()
    while await peer.receive() is not None:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(commands, max_size=12), st.binary(max_size=60))
def test_any_sequence_of_packets_ends_in_a_clean_close(
    sent: list[tuple[Command, int, int, bytes]], tail: bytes
) -> None:
    async def work() -> None:
        async with serve(registry(echo=echo)) as peer:
            try:
                await _survives(peer, sent, tail)
            except ConnectionError:
                pass  # the device cut us off
            assert len(peer.connection._streams) <= 3

    run(work())
