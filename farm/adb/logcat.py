"""A device's log from the start of a lease to its end, streamed, compressed and bounded.

The file is zstd, in frames of their own: whatever was flushed can be read while the rest is still being written, and
after a crash of the writer all but the last frame is whole. What the device did not give is said in the file itself, in
lines that begin with `--------- farm:`. A file that has grown to its limit becomes `NAME.1` (one is kept).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from farm.adb.deadline import Deadline
from farm.adb.device import Device, Process
from farm.adb.errors import AdbError, ShellTimeout

log = logging.getLogger(__name__)

#: Written out at least so often, and after so many bytes of text.
_FLUSH_S = 1.0
_FLUSH_BYTES = 256 << 10
#: At the end what is still on its way is read, until there is silence, but no longer than that.
_QUIET_S = 0.3
_DRAIN_S = 4.0
#: Tries to reach a lost device again: first pause, and the longest.
_RETRY_S = (0.5, 5.0)
_STAMP = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\s")
_MARK = "--------- farm:"
#: What is read back of an existing file, to go on where it ended.
_MAX_FRAME = 8 << 20


class LogcatStream:
    """A thread that writes `logcat -b all -v threadtime` into `path`; a device that goes is waited for.

    With an existing file it goes on where that one ended: start it again after a restart of the farm.
    """

    def __init__(self, device: Device, path: Path, *, max_bytes: int = 32 << 20) -> None:
        self._device = device
        self._file = LogFile(path, max_bytes)
        self._thread = threading.Thread(target=self._run, name=f"logcat-{device.address}", daemon=True)
        self._stopping = threading.Event()
        self._process: Process | None = None
        self._boot_id: str | None = None
        self._since: str | None = None  # time of the newest line
        self._newest: set[str] = set()  # the lines of that very time: `-T` repeats them

    def start(self) -> None:
        last = self._file.open()
        if last is not None:
            self._since = last
            self._newest = set(self._file.lines_at(last))
            self._note("the farm was restarted; going on from the last line")
        else:
            self._note(f"log of {self._device.address}")
        self._thread.start()

    @property
    def pids(self) -> tuple[int, ...]:
        """Its process on the device, which cleaning must spare; empty while there is none."""
        process = self._process
        return () if process is None or process.pid is None else (process.pid,)

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the stream and the file. What the device had written by now is in it, as far as it still answers."""
        self._stopping.set()
        self._thread.join(timeout_s)

    # ---- the thread ----

    def _run(self) -> None:
        pause = _RETRY_S[0]
        while not self._stopping.is_set():
            try:
                self._stream()
                pause = _RETRY_S[0]
                self._note("logcat ended by itself; starting it again")
            except AdbError as error:
                if not self._stopping.is_set() and pause == _RETRY_S[0]:
                    self._note(f"gap: {error}")
            except Exception:
                log.exception("the log of %s ends here", self._device.address)
                self._note("the farm failed to write this log; see the agent's log")
                break
            self._file.flush()
            self._stopping.wait(pause)
            pause = min(pause * 2, _RETRY_S[1])
        self._file.close()

    def _stream(self) -> None:
        boot_id = self._device.boot_id()
        if self._boot_id is not None and boot_id != self._boot_id:
            self._note("the device was restarted")
        self._boot_id = boot_id
        command = ["logcat", "-b", "all", "-v", "threadtime", *(["-T", self._since] if self._since else [])]
        repeated = self._newest if self._since else None
        process = self._process = self._device.spawn(command)
        try:
            self._copy(process, set(repeated) if repeated else set(), resumed=repeated is not None)
        finally:
            self._process = None
            process.kill()

    def _copy(self, process: Process, repeated: set[str], resumed: bool) -> None:
        """Lines into the file until the process ends. `repeated`: lines that are there already."""
        found_again = not resumed
        flush_at = time.monotonic() + _FLUSH_S
        rest: Deadline | None = None
        while rest is None or not rest.expired:
            if rest is None and self._stopping.is_set():
                rest = Deadline(_DRAIN_S)
            try:
                line = process.read_line(max(0.01, flush_at - time.monotonic()) if rest is None else _QUIET_S)
            except ShellTimeout:
                if rest is not None:
                    return
                line = None
                ended = False
            else:
                ended = line is None
            if time.monotonic() >= flush_at or ended:
                self._file.flush()
                flush_at = time.monotonic() + _FLUSH_S
            if ended:
                return
            if line is None or line.stream != "stdout":
                continue
            stamp = _STAMP.match(line.text)
            if line.text in repeated:
                found_again = True
                continue
            if stamp and not found_again and stamp[1] > (self._since or ""):
                self._note("the device no longer had the last line: lines may be missing here")
                found_again = True
            self._file.write(line.text)
            if stamp:
                self._remember(stamp[1], line.text)

    def _remember(self, stamp: str, line: str) -> None:
        if stamp != self._since:
            self._since, self._newest = stamp, set()
        if len(self._newest) < 10_000:
            self._newest.add(line)

    def _note(self, text: str) -> None:
        self._file.write(f"{_MARK} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC {text}")


class LogFile:
    """Lines into zstd frames, each flush one whole frame; bounded by rotation."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._pending = 0
        self._lock = threading.Lock()

    def open(self) -> str | None:
        """Make the file ready; the time of the last line of an existing one."""
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
            if stamp := _STAMP.match(line):
                last = stamp[1]
        return last

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
            note = f"{_MARK} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC older lines are in {self._path.name}.1\n"
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
