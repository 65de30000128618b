"""The file of a device's log: lines in zstd frames, each flush one whole frame, bounded by rotation.

Whatever was flushed can be read while the rest is still being written, and after a crash of the writer all but the last
frame is whole. A file that has grown to its limit becomes `NAME.1` (one is kept).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from farm.evidence.collect.log_marks import MARK, boot_of

#: Written out after so many bytes of text.
_FLUSH_BYTES = 256 << 10
STAMP = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\s")
#: What is read back of an existing file, to go on where it ended.
_MAX_FRAME = 8 << 20


class LogFile:
    """Lines into zstd frames, each flush one whole frame; bounded by rotation."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._pending = 0
        self._lock = threading.Lock()
        self.boot_id: str | None = None

    def open(self) -> str | None:
        """Make the file ready; the time of the last line of an existing one. `boot_id` is that line's boot then."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            self._path.touch()
            return None
        whole = sum(size for size, _ in _frames(self._path))
        if whole < self._path.stat().st_size:  # the writer died in the middle of a frame
            with self._path.open("r+b") as file:
                file.truncate(whole)
        last = None
        for line in read_lines(self._path):
            if stamp := STAMP.match(line):
                last = stamp[1]
            self.boot_id = boot_of(line) or self.boot_id
        return last

    def note(self, text: str) -> None:
        """A line of our own: what the device did not give, or what is known of it."""
        self.write(f"{MARK} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC {text}")

    def lines_at(self, stamp: str) -> Iterator[str]:
        return (line for line in read_lines(self._path) if line.startswith(stamp))

    def write(self, line: str) -> None:
        with self._lock:
            self._lines.append(line.encode("utf-8", "replace") + b"\n")
            self._pending += len(self._lines[-1])
            if self._pending >= _FLUSH_BYTES:
                self._flush()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def close(self) -> None:
        self.flush()

    def _flush(self) -> None:
        if not self._lines:
            return
        data = zstandard.ZstdCompressor(level=6, write_content_size=True).compress(b"".join(self._lines))
        self._lines, self._pending = [], 0
        if self._path.stat().st_size + len(data) > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            note = f"{MARK} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC older lines are in {self._path.name}.1\n"
            data = zstandard.ZstdCompressor().compress(note.encode()) + data
        with self._path.open("ab") as file:
            file.write(data)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a log file, as far as its frames are whole; also while it is being written."""
    for _, data in _frames(path):
        yield from data.decode("utf-8", "replace").splitlines()


def _frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """(compressed size, content) of each whole frame."""
    data = memoryview(path.read_bytes())
    while data:
        try:
            size = zstandard.frame_content_size(data)
            if not 0 <= size <= _MAX_FRAME:
                return
            decompressor = zstandard.ZstdDecompressor().decompressobj()
            content = decompressor.decompress(data)
        except zstandard.ZstdError:
            return
        if not decompressor.eof:
            return
        used = len(data) - len(decompressor.unused_data)
        yield used, content
        data = data[used:]
