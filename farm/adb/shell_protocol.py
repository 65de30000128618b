"""Shell v2, host side: frames in and out, lines, and the pid of the command.

A frame is an id (0 stdin, 1 stdout, 2 stderr, 3 exit code, 4 close stdin, 5 window size), a little-endian length and
data. Source of the format: AOSP `packages/modules/adb/shell_protocol.h`.
"""

from __future__ import annotations

import secrets
import shlex
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = 0, 1, 2, 3, 4
#: One frame that we send; adbd reads at most its buffer's size.
MAX_FRAME = 32 << 10
#: A line that is longer comes in pieces.
MAX_LINE = 1 << 20
_HEAD = struct.Struct("<BI")


def frame(kind: int, data: bytes | memoryview = b"") -> bytes:
    return _HEAD.pack(kind, len(data)) + bytes(data)


def stdin_frames(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(view), MAX_FRAME):
        yield frame(STDIN, view[start : start + MAX_FRAME])


class Decoder:
    """Bytes → (id, data) pieces. Data is passed on as it comes, so nothing is held whatever length a frame names."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._kind = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        view = memoryview(data)
        while view:
            if self._left == 0:
                want = _HEAD.size - len(self._head)
                self._head += view[:want]
                view = view[want:]
                if len(self._head) < _HEAD.size:
                    return
                self._kind, self._left = _HEAD.unpack(self._head)
                self._head.clear()
                continue
            piece = bytes(view[: self._left])
            view = view[len(piece) :]
            self._left -= len(piece)
            yield self._kind, piece


class Lines:
    """Bytes of one stream → lines without their ends; never holds more than MAX_LINE."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        self._rest += data
        if b"\n" in data:
            *whole, rest = self._rest.split(b"\n")
            self._rest = bytearray(rest)
            for line in whole:
                yield from self._pieces(bytes(line))
        while len(self._rest) > MAX_LINE:
            piece, self._rest = bytes(self._rest[:MAX_LINE]), self._rest[MAX_LINE:]
            yield _text(piece)

    def end(self) -> Iterator[str]:
        """What is left when the stream ends without a newline."""
        if self._rest:
            rest, self._rest = bytes(self._rest), bytearray()
            yield from self._pieces(rest)

    @staticmethod
    def _pieces(line: bytes) -> Iterator[str]:
        for start in range(0, max(len(line), 1), MAX_LINE):
            yield _text(line[start : start + MAX_LINE])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


@dataclass(frozen=True, slots=True)
class Announced:
    """A shell line that first tells its own pid on stderr, so that its process group can be killed later.

    adbd makes the shell the leader of a session of its own, so this pid is the group too. When the command was given
    as a sequence it replaces the shell, and the pid is the command's.
    """

    line: str
    nonce: str

    @classmethod
    def of(cls, command: str | Sequence[str]) -> Announced:
        nonce = f"pid-{secrets.token_hex(6)}:"
        if isinstance(command, str):
            return cls(f"echo {nonce}$$ >&2\n{command}", nonce)
        return cls(f"echo {nonce}$$ >&2\nexec {shlex.join(command)}", nonce)


class PidFilter:
    """Takes the announcement out of the beginning of stderr."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode()
        self._held: bytearray | None = bytearray()
        self.pid: int | None = None

    def feed(self, data: bytes) -> bytes:
        """`data` without the announcement; b"" while it is not certain what the beginning is."""
        if self._held is None:
            return data
        self._held += data
        head = bytes(self._held[: len(self._nonce)])
        if not self._nonce.startswith(head):
            return self._release()
        if b"\n" in self._held:
            line, _, rest = bytes(self._held).partition(b"\n")
            digits = line[len(self._nonce) :].strip()
            if digits.isdigit() and len(digits) < 12:
                self.pid = int(digits)
                self._held = bytearray(rest)
            return self._release()
        return self._release() if len(self._held) > len(self._nonce) + 16 else b""

    def end(self) -> bytes:
        return b"" if self._held is None else self._release()

    def _release(self) -> bytes:
        held, self._held = bytes(self._held or b""), None
        return held
