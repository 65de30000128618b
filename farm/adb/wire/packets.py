"""Messages of the adb transport protocol: a 24-byte little-endian header and a bounded payload.

Header: command, arg0, arg1, payload length, payload checksum, magic (command ^ 0xffffffff). Peers that agreed on
version 0x01000001 leave the checksum 0 and ignore it; older ones send the sum of the payload's bytes. Source of the
format: AOSP `packages/modules/adb/protocol.txt` and `adb.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

VERSION_MIN = 0x01000000
VERSION_SKIP_CHECKSUM = 0x01000001
STLS_VERSION = 0x01000000
MAX_PAYLOAD = 1 << 20
"""Bytes: what adb 36 offers as maxdata, and the most that we accept in one packet."""
MAX_PAYLOAD_V1 = 4096
"""Bytes: what the oldest peers can take."""

HEADER = struct.Struct("<6I")


class Command(IntEnum):
    """The first header word: four ASCII letters, little-endian."""

    SYNC = 0x434E5953
    CNXN = 0x4E584E43
    AUTH = 0x48545541
    OPEN = 0x4E45504F
    OKAY = 0x59414B4F
    CLSE = 0x45534C43
    WRTE = 0x45545257
    STLS = 0x534C5453


class AuthKind(IntEnum):
    """arg0 of an AUTH packet."""

    TOKEN = 1
    SIGNATURE = 2
    RSA_PUBLIC_KEY = 3


_COMMANDS = {int(command): command for command in Command}


class ProtocolError(Exception):
    """The peer sent something that is not the adb protocol; the connection is beyond repair."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One message. The payload may be a view of a buffer that belongs to nobody else."""

    command: Command
    arg0: int
    arg1: int
    payload: bytes | bytearray | memoryview = b""

    def header(self, checksum: bool) -> bytes:
        """The 24 bytes that go before the payload."""
        return encode_header(self.command, self.arg0, self.arg1, self.payload, checksum)

    def encode(self, checksum: bool = True) -> bytes:
        """Header and payload in one piece; for small packets and tests."""
        return b"".join((self.header(checksum), self.payload))


def payload_checksum(payload: bytes | bytearray | memoryview) -> int:
    """Sum of all bytes modulo 2**32 (called crc32 in adb's sources, which it is not)."""
    return sum(payload) & 0xFFFFFFFF


def encode_header(
    command: Command, arg0: int, arg1: int, payload: bytes | bytearray | memoryview, checksum: bool
) -> bytes:
    """The 24 header bytes for this payload."""
    total = payload_checksum(payload) if checksum else 0
    return HEADER.pack(command, arg0, arg1, len(payload), total, command ^ 0xFFFFFFFF)


class PacketReader:
    """Turns received bytes into packets without copying payloads.

    The owner receives straight into `get_buffer()` and reports the count to `buffer_updated()`: first the header, then
    exactly its payload. Memory is bounded by one header and one payload of at most `max_payload` bytes, whatever the
    peer sends.
    """

    def __init__(self, max_payload: int = MAX_PAYLOAD, checksum: bool = True) -> None:
        self.max_payload = max_payload
        self.checksum = checksum
        """Whether payload checksums are verified; switched off when both sides speak 0x01000001."""
        self._head = bytearray(HEADER.size)
        self._fields: tuple[Command, int, int, int] | None = None
        self._payload = bytearray()
        self._filled = 0

    def get_buffer(self) -> memoryview:
        """Where the next received bytes belong; never empty."""
        target = self._head if self._fields is None else self._payload
        return memoryview(target)[self._filled :]

    def buffer_updated(self, count: int) -> Packet | None:
        """Notes `count` bytes written into the last buffer; the packet that they complete, if any."""
        self._filled += count
        if self._fields is None:
            if self._filled < HEADER.size:
                return None
            fields, length = self._parse_header()
            self._filled = 0
            if length == 0:
                return Packet(fields[0], fields[1], fields[2])
            self._fields = fields
            self._payload = bytearray(length)
            return None
        if self._filled < len(self._payload):
            return None
        return self._complete()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Packets completed by `data`, for callers that already hold the bytes."""
        view = memoryview(data)
        while view:
            buffer = self.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            packet = self.buffer_updated(count)
            if packet is not None:
                yield packet

    def _parse_header(self) -> tuple[tuple[Command, int, int, int], int]:
        command, arg0, arg1, length, checksum, magic = HEADER.unpack(self._head)
        known = _COMMANDS.get(command)
        if known is None or magic != command ^ 0xFFFFFFFF:
            raise ProtocolError(f"not an adb packet: command {command:#010x}, magic {magic:#010x}")
        if length > self.max_payload:
            raise ProtocolError(f"{known.name} announces {length} bytes of payload, more than {self.max_payload}")
        return (known, arg0, arg1, checksum), length

    def _complete(self) -> Packet:
        assert self._fields is not None
        command, arg0, arg1, checksum = self._fields
        payload, self._payload = self._payload, bytearray()
        self._fields, self._filled = None, 0
        # A peer that reconnects already knows that we skip checksums, and sends its CNXN without.
        skipped = command is Command.CNXN and arg0 >= VERSION_SKIP_CHECKSUM and checksum == 0
        if self.checksum and not skipped and payload_checksum(payload) != checksum:
            raise ProtocolError(f"{command.name} payload does not match its checksum")
        return Packet(command, arg0, arg1, payload)


@dataclass(frozen=True, slots=True)
class Banner:
    """What a peer says about itself in CNXN: `kind::key=value;…;features=a,b,c`."""

    kind: str
    properties: dict[str, str]
    features: frozenset[str]

    @classmethod
    def parse(cls, payload: bytes | bytearray | memoryview) -> Banner:
        """Reads any banner, also old ones without properties; never fails."""
        text = bytes(payload).split(b"\0", 1)[0].decode("utf-8", "replace")
        kind, _, rest = text.partition(":")
        _, _, listing = rest.partition(":")
        pairs = [entry.partition("=") for entry in listing.split(";") if "=" in entry]
        properties = {key: value for key, _, value in pairs if key != "features"}
        features = [value for key, _, value in pairs if key == "features"]
        return cls(kind, properties, frozenset(",".join(features).split(",")) - {""})

    def encode(self, order: Iterable[str] | None = None) -> bytes:
        """The banner as bytes, features in the given order (default: sorted)."""
        listing = [f"{key}={value}" for key, value in self.properties.items()]
        listing.append("features=" + ",".join(order if order is not None else sorted(self.features)))
        return f"{self.kind}::{';'.join(listing)}".encode()
