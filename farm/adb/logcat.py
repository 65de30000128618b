"""A device's log from the start of a lease to its end, streamed, compressed and bounded.

All buffers go into one file (`farm.adb.log_file`), and after a lost connection on from where it ended. What the device
did not give, each boot and how its clock stands beside the host's is said in the file itself, in lines that begin with
`--------- farm:` (`farm.evidence.collect.log_marks`).
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from farm.adb import log_source
from farm.adb.deadline import Deadline
from farm.adb.device import Device, Process
from farm.adb.errors import AdbError, ShellTimeout
from farm.adb.log_file import STAMP, LogFile, read_lines
from farm.evidence.collect.log_marks import clock_words

__all__ = ["LogFile", "LogcatStream", "read_lines"]

log = logging.getLogger(__name__)

#: Written out at least so often.
_FLUSH_S = 1.0
#: At the end what is still on its way is read, until there is silence, but no longer than that.
_QUIET_S = 0.3
_DRAIN_S = 4.0
#: Tries to reach a lost device again: first pause, and the longest.
_RETRY_S = (0.5, 5.0)


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
        self._rings: dict[str, int] = {}  # sizes of before, of those that were enlarged

    def start(self) -> None:
        last = self._file.open()
        if last is not None:
            self._since = last
            self._newest = set(self._file.lines_at(last))
            self._boot_id = self._file.boot_id
            self._file.note("the farm was restarted; going on from the last line")
        else:
            self._file.note(f"log of {self._device.address}")
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
                self._file.note("logcat ended by itself; starting it again")
            except AdbError as error:
                if not self._stopping.is_set() and pause == _RETRY_S[0]:
                    self._file.note(f"gap: {error}")
            except Exception:
                log.exception("the log of %s ends here", self._device.address)
                self._file.note("the farm failed to write this log; see the agent's log")
                break
            self._file.flush()
            self._stopping.wait(pause)
            pause = min(pause * 2, _RETRY_S[1])
        if self._rings:
            log_source.restore(self._device, self._rings)
        self._file.close()

    def _look(self) -> None:
        """Boot, clock and rings of the device, noted; and whether `-T` can find the last line again."""
        source = log_source.look(self._device)
        restarted = self._boot_id is not None and source.boot_id != self._boot_id
        if restarted:
            self._file.note("the device was restarted")
        elif self._since and source.local_time and source.local_time < self._since[: len(source.local_time)]:
            self._file.note(
                "gap: the device's clock was set back, or a year began: read from the start, lines may repeat"
            )
            self._since = None
        if restarted:  # another boot has another log, whatever its clock says
            self._since, self._rings = None, {}
        if source.boot_id is not None and (restarted or self._boot_id is None):
            self._file.note(f"boot {source.boot_id}")
        self._boot_id = source.boot_id or self._boot_id
        if source.offset_s is not None and source.zone is not None:
            self._file.note(clock_words(source.offset_s, source.within_s, source.zone))
        self._rings = log_source.enlarge(self._device, source) or self._rings

    def _stream(self) -> None:
        self._look()
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
            if line is not None and line.stream != "stdout":
                self._file.note(f"gap: logcat said: {line.text[:300]}")
            elif line is not None:
                found_again = self._keep(line.text, repeated, found_again)

    def _keep(self, text: str, repeated: set[str], found_again: bool) -> bool:
        """One line of the device's; whether the last line of before has come again, or was missed aloud."""
        if text in repeated:
            return True
        stamp = STAMP.match(text)
        if stamp and not found_again and stamp[1] > (self._since or ""):
            self._file.note("gap: the device no longer had the last line: lines may be missing here")
            found_again = True
        self._file.write(text)
        if stamp:
            self._remember(stamp[1], text)
        return found_again

    def _remember(self, stamp: str, line: str) -> None:
        if stamp != self._since:
            self._since, self._newest = stamp, set()
        if len(self._newest) < 10_000:
            self._newest.add(line)
