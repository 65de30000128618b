"""The `sync:` service: files in and out, stat and list, versions 1 and 2.

Requests are a four-letter id, a little-endian length and a path; answers and DATA chunks have the same 8-byte head.
Only the uncompressed forms exist here, and only they are advertised. Source of the format: AOSP
`packages/modules/adb/SYNC.TXT` and `file_sync_protocol.h`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from farm.adb.wire.server import Payload, Stream, StreamClosed

DATA_MAX = 64 << 10
"""Bytes: largest DATA chunk that the protocol allows."""
PATH_MAX = 1024
FEATURES = ("stat_v2", "ls_v2", "fixed_push_mkdir", "fixed_push_symlink_timestamp", "sendrecv_v2")

_HEAD = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT_V1 = struct.Struct("<4sIIII")
_DENT_V2 = struct.Struct("<4sIQQIIIIQqqqI")
_FLAGS = struct.Struct("<4sI")
_SEND_SETUP = struct.Struct("<4sII")
_CHUNKS_PER_WRITE = 15
"""DATA chunks that are sent in one packet: as many as fit in 1 MiB with their heads."""


class SyncError(Exception):
    """What the peer is told in FAIL; the session goes on."""


class FileTree(Protocol):
    """Where paths of the device lead to."""

    def locate(self, path: str, follow: bool = True) -> str:
        """The local path for a device path; raises `SyncError` for one that leaves the tree."""


class RootedTree:
    """A folder of this machine as the device's root; `/` inside a sandbox that is already confined."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)

    def locate(self, path: str, follow: bool = True) -> str:
        """Resolves links itself, so that neither `..` nor a link leads out."""
        joined = os.path.join(self._root, path.lstrip("/"))
        if self._root == "/":
            return joined
        parent, name = os.path.split(joined.rstrip("/"))
        target = (
            os.path.realpath(joined) if follow or name in ("..", ".") else os.path.join(os.path.realpath(parent), name)
        )
        if target != self._root and not target.startswith(self._root + "/"):
            raise SyncError(f"{path}: leads out of the device")
        return target


class _Input:
    """Reads exact counts and takes pieces as they come, from a stream's payloads."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._view = memoryview(b"")

    async def piece(self, limit: int) -> memoryview:
        """Between 1 and `limit` bytes, uncopied."""
        while not self._view:
            payload: Payload = await self._stream.read()
            if not payload:
                raise StreamClosed
            self._view = memoryview(payload)
        piece, self._view = self._view[:limit], self._view[limit:]
        return piece

    async def exactly(self, count: int) -> bytes:
        """`count` bytes; callers bound it."""
        first = await self.piece(count)
        if len(first) == count:
            return bytes(first)
        parts = bytearray(first)
        while len(parts) < count:
            parts += await self.piece(count - len(parts))
        return bytes(parts)


class SyncService:
    """Handler for `sync:`; one session per stream."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree

    async def __call__(self, stream: Stream, service: str) -> None:
        stream.accept()
        await _Session(stream, self._tree).run()


class _Session:
    def __init__(self, stream: Stream, tree: FileTree) -> None:
        self._stream = stream
        self._input = _Input(stream)
        self._tree = tree
        self._left_of_chunk = 0
        self._data_done = False
        self._requests: dict[bytes, Callable[[str], Awaitable[None]]] = {
            b"STAT": self._stat_v1,
            b"STA2": lambda path: self._stat_v2(path, b"STA2", follow=True),
            b"LST2": lambda path: self._stat_v2(path, b"LST2", follow=False),
            b"LIST": lambda path: self._list(path, b"DENT"),
            b"LIS2": lambda path: self._list(path, b"DNT2"),
            b"SEND": self._send_v1,
            b"SND2": self._send_v2,
            b"RECV": self._recv,
            b"RCV2": self._recv_v2,
        }

    async def run(self) -> None:
        while True:
            request, length = _HEAD.unpack(await self._input.exactly(_HEAD.size))
            if request == b"QUIT":
                return
            answer = self._requests.get(request)
            if answer is None or length > PATH_MAX:
                await self._fail(f"unknown request {request!r}" if answer is None else "path too long")
                return
            path = (await self._input.exactly(length)).decode("utf-8", "surrogateescape") if length else ""
            try:
                if "\0" in path:
                    raise SyncError("path contains a zero byte")
                await answer(path)
            except SyncError as error:
                await self._fail(str(error))
            except OSError as error:
                await self._fail(f"{path}: {error.strerror}")

    async def _fail(self, message: str) -> None:
        data = message.encode("utf-8", "replace")[:DATA_MAX]
        await self._stream.write(_HEAD.pack(b"FAIL", len(data)) + data)

    # --- stat and list

    async def _stat_v1(self, path: str) -> None:
        try:
            found = os.lstat(self._tree.locate(path, follow=False))
            answer = _STAT_V1.pack(b"STAT", found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime) & 0xFFFFFFFF)
        except (OSError, SyncError):
            answer = _STAT_V1.pack(b"STAT", 0, 0, 0)
        await self._stream.write(answer)

    async def _stat_v2(self, path: str, kind: bytes, follow: bool) -> None:
        try:
            found = os.stat(self._tree.locate(path, follow), follow_symlinks=follow)
            answer = _STAT_V2.pack(kind, 0, *_stat_fields(found))
        except SyncError:
            answer = _STAT_V2.pack(kind, 13, *[0] * 10)
        except OSError as error:
            answer = _STAT_V2.pack(kind, error.errno or 5, *[0] * 10)
        await self._stream.write(answer)

    async def _list(self, path: str, kind: bytes) -> None:
        layout, zeros = (_DENT_V1, 4) if kind == b"DENT" else (_DENT_V2, 12)
        try:
            with os.scandir(self._tree.locate(path)) as entries:
                for entry in entries:
                    name = entry.name.encode("utf-8", "surrogateescape")
                    found = entry.stat(follow_symlinks=False)
                    if kind == b"DENT":
                        size, mtime = found.st_size & 0xFFFFFFFF, int(found.st_mtime) & 0xFFFFFFFF
                        head = layout.pack(kind, found.st_mode, size, mtime, len(name))
                    else:
                        head = layout.pack(kind, 0, *_stat_fields(found), len(name))
                    await self._stream.write(head + name)
        except (OSError, SyncError):
            pass  # adbd lists what it can and ends the list; the client has asked for stat before
        await self._stream.write(layout.pack(b"DONE", *[0] * zeros))

    # --- to the device

    async def _send_v1(self, argument: str) -> None:
        path, comma, mode = argument.rpartition(",")
        if not comma or not mode.isdigit() or len(mode) > 10:
            await self._discard_data()
            raise SyncError("SEND without a mode")
        await self._receive_file(path, int(mode))

    async def _send_v2(self, path: str) -> None:
        _, mode, flags = _SEND_SETUP.unpack(await self._input.exactly(_SEND_SETUP.size))
        if flags & 7:
            await self._discard_data()
            raise SyncError("compressed transfer was not offered")
        await self._receive_file(path, mode)

    async def _receive_file(self, path: str, mode: int) -> None:
        self._data_done = False
        try:
            target = self._tree.locate(path, follow=False)
            os.makedirs(os.path.dirname(target), mode=0o775, exist_ok=True)
            if stat.S_ISLNK(mode):
                await self._receive_link(target)
            else:
                await self._receive_regular(target, mode & 0o777)
        except (OSError, SyncError) as error:
            if not self._data_done:
                await self._discard_data()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SyncError(f"couldn't create file '{path}': {reason}") from error
        await self._stream.write(_HEAD.pack(b"OKAY", 0))

    async def _receive_regular(self, target: str, mode: int) -> None:
        # A new inode each time: a running program of this name keeps the old file (as adbd, which unlinks first).
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            mtime = await self._copy_data(fd)
            os.fchmod(fd, mode)  # as sent; adbd would copy the user's bits to group and others
            os.utime(fd, (mtime, mtime))
        except BaseException:  # also a peer that went away: half a file must not look like a whole one
            os.unlink(target)
            raise
        finally:
            os.close(fd)

    async def _copy_data(self, fd: int) -> int:
        """Writes DATA chunks until DONE; the modification time (s) that DONE carries."""
        while True:
            kind, count = _HEAD.unpack(await self._input.exactly(_HEAD.size))
            if kind == b"DONE":
                self._data_done = True
                return int(count)
            if kind != b"DATA" or count > DATA_MAX:
                raise StreamClosed
            self._left_of_chunk = count
            while self._left_of_chunk:
                piece = await self._input.piece(self._left_of_chunk)
                self._left_of_chunk -= len(piece)
                while piece:
                    piece = piece[os.write(fd, piece) :]

    async def _receive_link(self, target: str) -> None:
        link = bytearray()
        while True:
            kind, count = _HEAD.unpack(await self._input.exactly(_HEAD.size))
            if kind == b"DONE":
                self._data_done = True
                break
            if kind != b"DATA" or count + len(link) > PATH_MAX:
                raise StreamClosed
            link += await self._input.exactly(count)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        os.symlink(bytes(link).rstrip(b"\0"), os.fsencode(target))

    async def _discard_data(self) -> None:
        """Reads on to DONE, so that the peer, which only listens after it, learns of the failure."""
        while True:
            while self._left_of_chunk:
                self._left_of_chunk -= len(await self._input.piece(self._left_of_chunk))
            kind, count = _HEAD.unpack(await self._input.exactly(_HEAD.size))
            if kind == b"DONE":
                return
            if kind != b"DATA" or count > DATA_MAX:
                raise StreamClosed
            self._left_of_chunk = count

    # --- from the device

    async def _recv_v2(self, path: str) -> None:
        _, flags = _FLAGS.unpack(await self._input.exactly(_FLAGS.size))
        if flags & 7:
            raise SyncError("compressed transfer was not offered")
        await self._recv(path)

    async def _recv(self, path: str) -> None:
        fd = os.open(self._tree.locate(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise SyncError(f"{path}: Is a directory")
            await self._send_chunks(fd)
        finally:
            os.close(fd)
        await self._stream.write(_HEAD.pack(b"DONE", 0))

    async def _send_chunks(self, fd: int) -> None:
        # Two buffers in turn: when a write returns, the peer has acknowledged the one before, so that buffer is free.
        size = _CHUNKS_PER_WRITE * (_HEAD.size + DATA_MAX)
        buffers = (bytearray(size), bytearray(size))
        turn = 0
        while True:
            room = memoryview(buffers[turn])
            turn ^= 1
            used = 0
            for start in range(0, size, _HEAD.size + DATA_MAX):
                count = os.readv(fd, [room[start + _HEAD.size : start + _HEAD.size + DATA_MAX]])
                if count == 0:
                    break
                _HEAD.pack_into(room, start, b"DATA", count)
                used = start + _HEAD.size + count
                if count < DATA_MAX:
                    break
            if used == 0:
                return
            await self._stream.write(room[:used])


def _stat_fields(found: os.stat_result) -> tuple[int, ...]:
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        found.st_size,
        int(found.st_atime),
        int(found.st_mtime),
        int(found.st_ctime),
    )
