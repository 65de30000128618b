"""Frames of the agent channel: many streams over one connection between an agent and a server.

A frame is one binary message: a header of 16 bytes, then the payload.

    offset  size  what
    0       1     version (1)
    1       1     kind
    2       2     reserved, zero
    4       4     stream, unsigned; 0 is the channel itself, odd ones are opened by the server, even ones by the agent
    8       8     lease, unsigned; 0 where no lease is needed
    all numbers big-endian

A stream begins with OPEN (payload: UTF-8 JSON `{"service": "echo", …}`), carries DATA in both directions, and ends with
CLOSE (payload: a reason in words, empty for an ordinary end). Whatever needs a device names the lease that it is for,
and the agent checks that lease at the OPEN. Durable facts never travel here: they go through the database.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

VERSION = 1
#: Most payload bytes of a frame; whoever has more to say sends more frames.
MAX_PAYLOAD = 256 * 1024
#: Most bytes of a whole message.
MAX_FRAME = MAX_PAYLOAD + 16
#: Most streams of one channel at a time.
MAX_STREAMS = 256

_HEADER = struct.Struct(">BBHIQ")


class Kind(IntEnum):
    """What a frame is for. Numbers are part of the protocol: they are never given away again."""

    HELLO = 1  # agent → server, first: who it is (JSON: host, incarnation, secret, protocol)
    WELCOME = 2  # server → agent: let in
    BYE = 3  # either: an orderly end; the host is not lost
    OPEN = 4
    DATA = 5
    CLOSE = 6
    PING = 7  # answered by PONG with the same payload
    PONG = 8


class FrameError(ValueError):
    """A message that is no frame; the channel is closed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    kind: Kind
    stream: int = 0
    lease: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """The message. Raises FrameError for a payload that is too long."""
        if len(self.payload) > MAX_PAYLOAD:
            raise FrameError(f"a payload of {len(self.payload)} bytes; at most {MAX_PAYLOAD}")
        return _HEADER.pack(VERSION, self.kind, 0, self.stream, self.lease) + self.payload

    def json(self) -> dict[str, Any]:
        """The payload as a JSON object. Raises FrameError."""
        try:
            found = json.loads(self.payload)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise FrameError("the payload is no JSON object")
        return found


def decode(message: bytes | str) -> Frame:
    """The frame of a message. Raises FrameError."""
    if isinstance(message, str):
        raise FrameError("a text message; frames are binary")
    if not _HEADER.size <= len(message) <= MAX_FRAME:
        raise FrameError(f"a message of {len(message)} bytes; a frame has {_HEADER.size} to {MAX_FRAME}")
    version, kind, reserved, stream, lease = _HEADER.unpack_from(message)
    if version != VERSION or reserved:
        raise FrameError(f"version {version}, here is {VERSION}")
    try:
        return Frame(Kind(kind), stream, lease, message[_HEADER.size :])
    except ValueError:
        raise FrameError(f"no frame is of kind {kind}") from None


def told(kind: Kind, fields: dict[str, Any], *, stream: int = 0, lease: int = 0) -> Frame:
    """A frame whose payload is a JSON object."""
    return Frame(kind, stream, lease, json.dumps(fields).encode())
