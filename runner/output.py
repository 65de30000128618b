"""What the inside prints, into `runner.log`: bounded, live, its end always kept."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO

#: Bytes of one attempt's log from its beginning; the end is kept beside them.
HEAD = 8 << 20
TAIL = 256 << 10
#: A suite that prints more than this is stopped.
FLOOD = 256 << 20


class OutputLog:
    """A thread that reads `stream` to its end. The reader is never slower than the writer for long: what is too much is
    read and dropped, and so is what a full disk does not take."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream = stream
        self._file = path.open("ab", buffering=0)
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0
        self.count = 0
        self.last_output = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    @property
    def floods(self) -> bool:
        return self.count > FLOOD

    def say(self, text: str) -> None:
        """A line of the supervisor's own, at once."""
        self._write(text.encode() + b"\n")

    def tail(self, limit: int = 16 << 10) -> str:
        """The last characters that came."""
        return b"".join(self._tail)[-limit:].decode(errors="replace")

    def finish(self, timeout_s: float = 10.0) -> None:
        """Wait for the end of the stream, write what the log still lacks, close."""
        self._thread.join(timeout_s)
        if self._dropped:
            kept = b"".join(self._tail)[-TAIL:]
            gone = max(0, self._dropped - len(kept))
            self._write(f"\n… {gone} bytes left out …\n".encode() + kept[-min(len(kept), self._dropped) :])
        self._file.close()

    def _write(self, data: bytes) -> int:
        """How much the file took: to lose a piece of the log is better than to hold up the suite."""
        try:
            return self._file.write(data) or 0
        except OSError:
            return 0

    def _run(self) -> None:
        fd = self._stream.fileno()
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.last_output = time.monotonic()
            room = max(0, HEAD - self.count)
            self.count += len(data)
            self._dropped += len(data) - self._write(data[:room])
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= TAIL:
                self._tail_size -= len(self._tail.popleft())
