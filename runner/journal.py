"""Writing the journal of `farm.domain.journal`: one whole line per record, in one place.

`FileJournal` is the only writer of a journal file: the supervisor's, or a desk's. Everybody else reports to it through
a `runner.reporter`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.domain.journal import MAX_LINE, Kind, Record, parse_line

#: Records whose loss would make a test run twice, or an attempt end unheard.
_DURABLE = {Kind.TEST_END, Kind.END}


class FileJournal:
    """Appends records to `path`; a second start continues the numbers after the last whole line.

    A torn last line (the writer died in it, or the disk was full) is closed with a newline and stays: readers pass over
    it, and a reader that follows the file never sees it shrink.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._seq = max((record.seq for record in read(path)), default=-1)
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._whole = False  # whether the file ends with a whole line, as far as is known

    def record(self, kind: str, **fields: Any) -> int:
        """Append one record and return its number.

        Raises ValueError for what cannot be a line (too long, NaN), OSError where the disk is full.
        """
        with self._lock:
            self._close_line()
            record = Record(self._seq + 1, time.time(), time.monotonic(), kind, fields)
            data = memoryview(record.line().encode("utf-8", "backslashreplace"))
            self._whole = False
            while data:
                data = data[os.write(self._fd, data) :]
            self._whole, self._seq = True, record.seq
            if kind in _DURABLE:
                os.fdatasync(self._fd)
            return record.seq

    def _close_line(self) -> None:
        """What follows a torn line begins on a line of its own."""
        size = 0 if self._whole else os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def close(self) -> None:
        os.close(self._fd)


def read(path: Path) -> Iterator[Record]:
    """Every readable record of a journal file, in order; none when there is no file. Lines are bounded."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        while line := stream.readline(MAX_LINE + 1):
            whole = line.endswith(b"\n")
            record = parse_line(line) if whole else None
            if record is not None:
                yield record
            while line and not whole:  # the rest of a line that is too long
                line = stream.readline(MAX_LINE + 1)
                whole = line.endswith(b"\n")
