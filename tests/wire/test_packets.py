"""Framing of the adb protocol: what may come in, and what any other bytes do."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adb.wire.packets import (
    HEADER,
    MAX_PAYLOAD,
    VERSION_SKIP_CHECKSUM,
    Banner,
    Command,
    Packet,
    PacketReader,
    ProtocolError,
    encode_header,
)

packets = st.builds(
    Packet,
    st.sampled_from(Command),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
)


def plain(packet: Packet) -> tuple[Command, int, int, bytes]:
    return packet.command, packet.arg0, packet.arg1, bytes(packet.payload)


@given(st.lists(packets, max_size=6), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_packets_come_out_as_they_went_in_however_they_are_cut(sent: list[Packet], cuts: list[int]) -> None:
    data = b"".join(packet.encode() for packet in sent)
    reader, received, turn = PacketReader(), [], 0
    while data:
        size = cuts[turn % len(cuts)]
        received += list(reader.feed(data[:size]))
        data, turn = data[size:], turn + 1
    assert [plain(packet) for packet in received] == [plain(packet) for packet in sent]


@given(st.binary(max_size=2000))
def test_any_bytes_are_packets_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        list(PacketReader().feed(data))


@given(st.sampled_from(Command), st.binary(max_size=16), st.integers(0, 2**32 - 1))
def test_a_known_command_with_any_fields_never_makes_more_than_one_bounded_buffer(
    command: Command, rest: bytes, length: int
) -> None:
    header = HEADER.pack(command, 1, 1, length, 0, command ^ 0xFFFFFFFF)
    reader = PacketReader(checksum=False)
    if length > MAX_PAYLOAD:
        with pytest.raises(ProtocolError, match="more than"):
            list(reader.feed(header))
    else:
        list(reader.feed(header + rest))
        assert len(reader.get_buffer()) <= max(MAX_PAYLOAD, HEADER.size)


def test_an_announced_gigabyte_costs_no_memory() -> None:
    header = HEADER.pack(Command.WRTE, 1, 1, 1 << 30, 0, Command.WRTE ^ 0xFFFFFFFF)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            list(PacketReader().feed(header))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_wrong_checksum_is_refused_unless_both_sides_skip_it() -> None:
    data = HEADER.pack(Command.WRTE, 1, 1, 3, 999, Command.WRTE ^ 0xFFFFFFFF) + b"abc"
    with pytest.raises(ProtocolError, match="checksum"):
        list(PacketReader().feed(data))
    assert bytes(next(PacketReader(checksum=False).feed(data)).payload) == b"abc"


def test_a_peer_that_reconnects_may_leave_the_checksum_of_its_first_packet_out() -> None:
    header = encode_header(Command.CNXN, VERSION_SKIP_CHECKSUM, MAX_PAYLOAD, b"host::", checksum=False)
    assert next(PacketReader().feed(header + b"host::")).command is Command.CNXN


@given(st.binary(max_size=300))
def test_any_banner_is_read(payload: bytes) -> None:
    Banner.parse(payload)


def test_a_banner_round_trips() -> None:
    banner = Banner("device", {"ro.product.name": "husky"}, frozenset({"shell_v2", "cmd"}))
    assert Banner.parse(banner.encode()) == banner
    assert Banner.parse(b"host::\0") == Banner("host", {}, frozenset())
