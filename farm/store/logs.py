"""An attempt's logs, read piece by piece: from its folder while it lives, from the artifact store afterwards.

Offsets count bytes of the log itself, not of its compressed file, so that a reader can go on where it stopped even when
the log has moved from the one place to the other in between.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import zstandard
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.frames import Frame, FrameError, Kind
from farm.store.artifacts import ArtifactStore
from farm.store.tables import Artifact, Attempt

#: What can be asked for → the file in the attempt's folder, which is also the artifact's name.
FILES = {"runner": "runner.log", "logcat": "logcat.zst"}
#: Most bytes in one piece.
MAX_PIECE = 1024 * 1024
_STEP = 256 * 1024


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a log from `offset`; ask for `next_offset` next. `live`: more may come."""

    data: bytes
    offset: int
    next_offset: int
    live: bool

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def read_log(
    session: Session, store: ArtifactStore, state: Path, attempt_id: int, which: str, offset: int, limit: int
) -> LogPiece | None:
    """At most `limit` bytes from `offset` (negative: from the end). None: no such attempt, or no such log (yet).

    Raises KeyError for a log that is not in `FILES`.
    """
    name = FILES[which]
    attempt = session.execute(select(Attempt.ended_at).where(Attempt.id == attempt_id)).first()
    if attempt is None:
        return None
    with _opened(session, store, state, attempt_id, name) as source:
        if source is None:
            return None
        data, start = _piece(source, offset, max(1, min(limit, MAX_PIECE)))
    return LogPiece(data, start, start + len(data), live=attempt.ended_at is None)


def local_piece(state: Path, attempt_id: int, which: str, offset: int, limit: int) -> tuple[bytes, int] | None:
    """(bytes, where they begin) of a log in the attempt's own folder; None where there is none. Raises KeyError."""
    name = FILES[which]
    try:
        raw = (state / "attempts" / str(attempt_id) / name).open("rb")
    except OSError:
        return None
    with raw:
        return _piece(_reader(raw, name), offset, max(1, min(limit, MAX_PIECE)))


def head(start: int) -> bytes:
    """What goes before a piece that is sent from one machine to another."""
    return json.dumps({"offset": start}).encode()


def parse_head(data: bytes) -> int:
    """Where the piece begins. Raises FrameError."""
    start = Frame(Kind.DATA, payload=data).json().get("offset")
    if not isinstance(start, int) or start < 0:
        raise FrameError("the piece does not say where it begins")
    return start


@contextmanager
def _opened(
    session: Session, store: ArtifactStore, state: Path, attempt_id: int, name: str
) -> Iterator[IO[bytes] | None]:
    raw: IO[bytes]
    try:
        raw = (state / "attempts" / str(attempt_id) / name).open("rb")
    except OSError:
        sha256 = session.scalar(select(Artifact.sha256).where(Artifact.attempt_id == attempt_id, Artifact.name == name))
        try:
            if sha256 is None:
                raise FileNotFoundError(name)
            raw = store.open(sha256)
        except OSError:
            yield None
            return
    with raw:
        yield _reader(raw, name)


def _reader(raw: IO[bytes], name: str) -> IO[bytes]:
    return cast("IO[bytes]", _Frames(raw)) if name.endswith(".zst") else raw


class _Frames:
    """Reads zstd frames one after the other, as far as they are whole: the last one may still be written, and what
    is broken ends the log where it broke."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._held = b""
        self._ended = False

    def read(self, count: int) -> bytes:
        while not self._held and not self._ended:
            block = self._raw.read(_STEP // 4)
            if not block:
                break
            self._held = self._decompress(block)
        data, self._held = self._held[:count], self._held[count:]
        return data

    def _decompress(self, block: bytes) -> bytes:
        out = b""
        while block:
            try:
                out += self._frame.decompress(block)
            except zstandard.ZstdError:
                self._ended = True
                return out
            block = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
        return out


def _piece(source: IO[bytes], offset: int, limit: int) -> tuple[bytes, int]:
    """(bytes, where they begin)."""
    if offset < 0:
        return _tail(source, min(-offset, MAX_PIECE), limit)
    if not isinstance(source, _Frames):
        end = source.seek(0, io.SEEK_END)
        start = source.seek(min(offset, end))
    else:
        start = 0
        while start < offset and (skipped := source.read(min(_STEP, offset - start))):
            start += len(skipped)
    data = b""
    while len(data) < limit and (more := source.read(limit - len(data))):
        data += more
    return data, start


def _tail(source: IO[bytes], wanted: int, limit: int) -> tuple[bytes, int]:
    kept, read = b"", 0
    while more := source.read(_STEP):
        read += len(more)
        kept = (kept + more)[-wanted:]
    return kept[:limit], read - len(kept)
