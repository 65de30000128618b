"""Files to and from a device over `sync:`, at the speed of the link.

A request is a four-letter id, a little-endian length and that many bytes; SEND is followed by DATA chunks of at most
64 KiB and DONE with the modification time. Source of the format: AOSP `packages/modules/adb/SYNC.TXT`.
"""

from __future__ import annotations

import os
import select
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from farm.adb.connection import HostSocket
from farm.adb.errors import AdbError, Cancelled, DeviceGone, NoSpace, RemoteError, last_words
from farm.adb.link import Link

#: A chunk may not be longer.
DATA_MAX = 64 << 10
#: Chunks that are read and sent in one go.
_BATCH = 16
#: A device that takes, or gives, not one byte for this long is gone (writing out a full page cache takes seconds).
STALL_S = 60.0
_HEAD = struct.Struct("<4sI")
#: adbd refuses longer paths.
PATH_MAX = 1024


def send(
    link: Link,
    local: Path,
    remote: str,
    mode: int,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> int:
    """Write `local` to `remote`, with `mode` and its modification time. Returns the bytes sent.

    What is at `remote` after an error is undefined: send to a name that nobody reads, then rename.
    """
    spec = f"{remote},{stat.S_IFREG | mode}".encode()
    if len(spec) > PATH_MAX:
        raise RemoteError(f"{remote[:80]}…: a path of {len(spec)} bytes is too long for adb ({PATH_MAX})")
    with local.open("rb", buffering=0) as file, link.service("sync:") as connection:
        sock = connection.sock
        sock.settimeout(STALL_S)
        try:
            sock.sendall(_HEAD.pack(b"SEND", len(spec)) + spec)
            total = _send_data(link, connection, file, progress, cancelled)
            sock.sendall(_HEAD.pack(b"DONE", int(os.fstat(file.fileno()).st_mtime)))
            _acknowledged(link, connection, remote, total)
        except TimeoutError as error:
            raise DeviceGone(f"{link.address} took no data for {STALL_S:g} s while {remote} was sent") from error
        except OSError as error:
            raise link.lost(f"sending {remote}") from error
    return total


def _send_data(
    link: Link,
    connection: HostSocket,
    file: BinaryIO,
    progress: Callable[[int], None] | None,
    cancelled: Callable[[], bool] | None,
) -> int:
    """The file as DATA chunks; each batch is one read and one write, with the heads already between the chunks."""
    slot = _HEAD.size + DATA_MAX
    buffer = memoryview(bytearray(slot * _BATCH))
    bodies = [buffer[i * slot + _HEAD.size : (i + 1) * slot] for i in range(_BATCH)]
    answered = select.poll()
    answered.register(connection.sock, select.POLLIN)
    total = 0
    while True:
        if cancelled is not None and cancelled():
            raise Cancelled(f"{link.address}: sending was cancelled after {total} bytes")
        size = os.readv(file.fileno(), bodies)
        if size == 0:
            return total
        for index in range(-(-size // DATA_MAX)):
            _HEAD.pack_into(buffer, index * slot, b"DATA", min(DATA_MAX, size - index * DATA_MAX))
        connection.sock.sendall(buffer[: size + _HEAD.size * -(-size // DATA_MAX)])
        total += size
        if progress is not None:
            progress(total)
        if answered.poll(0):
            return total  # a refusal, or the end of the connection: reading the answer tells which


def _acknowledged(link: Link, connection: HostSocket, remote: str, total: int) -> None:
    kind, size = _head(link, connection, f"sending {remote}")
    if kind == b"OKAY":
        return
    raise _refusal(link, connection, kind, size, remote, total)


def _refusal(link: Link, connection: HostSocket, kind: bytes, size: int, remote: str, total: int | None) -> AdbError:
    """The error for an answer that is not the wanted one."""
    if kind != b"FAIL":
        return RemoteError(f"{link.address}: {remote}: sync answered {last_words(kind)}")
    text = _exactly(link, connection, min(size, 4096), remote).decode("utf-8", "replace")
    lowered = text.lower()
    if "no space left" in lowered:
        return NoSpace(f"{link.address}: {remote}: {text}", needed=total, free=None)
    if "read-only" in lowered or "permission denied" in lowered:
        return RemoteError(f"{link.address}: {remote}: {text}", remedy="write below /data/local/tmp")
    return RemoteError(f"{link.address}: {remote}: {text}")


def receive(link: Link, remote: str, target: BinaryIO, limit: int) -> int:
    """Write the content of `remote` to `target`; RemoteError when it is longer than `limit`."""
    path = remote.encode()
    if len(path) > PATH_MAX:
        raise RemoteError(f"{remote[:80]}…: a path of {len(path)} bytes is too long for adb ({PATH_MAX})")
    total = 0
    with link.service("sync:") as connection:
        connection.sock.settimeout(STALL_S)
        try:
            connection.sock.sendall(_HEAD.pack(b"RECV", len(path)) + path)
        except OSError as error:
            raise link.lost(f"fetching {remote}") from error
        while True:
            kind, size = _head(link, connection, f"fetching {remote}")
            if kind == b"DONE":
                return total
            if kind != b"DATA" or size > DATA_MAX:
                raise _refusal(link, connection, kind, size, remote, None)
            total += size
            if total > limit:
                raise RemoteError(f"{link.address}: {remote} is longer than the limit of {limit} bytes")
            target.write(_exactly(link, connection, size, remote))


def _head(link: Link, connection: HostSocket, doing: str) -> tuple[bytes, int]:
    kind, size = _HEAD.unpack(_exactly(link, connection, _HEAD.size, doing))
    return kind, size


def _exactly(link: Link, connection: HostSocket, size: int, doing: str) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        try:
            got = connection.sock.recv_into(view)
        except TimeoutError as error:
            raise DeviceGone(f"{link.address} said nothing for {STALL_S:g} s while {doing}") from error
        except OSError as error:
            raise link.lost(doing) from error
        if got == 0:
            raise link.lost(doing)
        view = view[got:]
    return data
