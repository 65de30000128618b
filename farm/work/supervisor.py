"""The runner's process: started once, found again after a restart of the farm, and ended for certain.

`runner.json` {pid, start_time, boot_id}: a process is the runner only if its start time and the host's boot are those,
for a bare pid may be somebody else's by now. The runner leads a process group of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

#: From its start a runner has so long to take the device's lock and say who it is.
START_S = 60.0


@dataclass(frozen=True, slots=True)
class RunnerId:
    """What `runner.json` says."""

    pid: int
    start_time: int  # clock ticks after the boot, /proc/PID/stat field 22
    boot_id: str


class Supervisor:
    """The runner of one attempt folder, whoever started it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None  # of our child that ended last

    def start(self) -> None:
        """Start a new runner; it outlives this process."""
        (self._folder / "runner.json").unlink(missing_ok=True)
        with (self._folder / "supervisor.log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "runner.session", str(self._folder)],  # -P: nothing is imported from cwd
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._exit_code = None

    def alive(self) -> bool:
        """Whether a runner of this folder lives: our child, or the one that runner.json names."""
        if self._child is not None:
            if self._child.poll() is None:
                return True
            self._exit_code, self._child = self._child.returncode, None
        found = self.identity()
        return found is not None and is_process(found)

    def identity(self) -> RunnerId | None:
        """What runner.json says; None when there is none (yet) that makes sense."""
        try:
            data = json.loads((self._folder / "runner.json").read_text())
            return RunnerId(int(data["pid"]), int(data["start_time"]), str(data["boot_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def kill(self, wait_s: float = 10.0) -> bool:
        """End the runner's process group: asked first, then for certain. False when something outlives even that."""
        pid = self._pid()
        if pid is None:
            return True
        for sign, patience in ((signal.SIGTERM, wait_s / 2), (signal.SIGKILL, wait_s)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, sign)
            if self.wait(patience):
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what the runner left behind in its group
        return not self.alive()

    def wait(self, seconds: float) -> bool:
        """Whether it is gone within `seconds`."""
        end = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def death(self) -> str:
        """How it ended, as far as that can be known of a process that need not be our child."""
        if self._exit_code is None:
            return "ended without its last record"
        if self._exit_code < 0:
            return f"was killed by {signal.Signals(-self._exit_code).name}"
        return f"ended with exit code {self._exit_code}, without its last record"

    def note(self, words: str) -> None:
        """A line of the farm's own in the attempt's log, for what a dead runner cannot say itself."""
        with contextlib.suppress(OSError), (self._folder / "runner.log").open("ab") as log:  # a full disk
            log.write(f"\nfarm: {words}\n".encode())

    def last_words(self) -> str:
        """The end of what it wrote, for a reason that is read by people."""
        for name in ("supervisor.log", "runner.log"):
            try:
                text = (self._folder / name).read_bytes()[-2000:].decode("utf-8", "replace").strip()
            except OSError:
                continue
            if text:
                return text[-600:]
        return "it said nothing"

    def _pid(self) -> int | None:
        if self._child is not None and self._child.poll() is None:
            return self._child.pid
        found = self.identity()
        return found.pid if found is not None and is_process(found) else None


def is_process(runner: RunnerId) -> bool:
    """Whether the very process lives: same boot, same start time, no zombie."""
    if runner.boot_id != host_boot_id() or runner.pid <= 1:
        return False
    try:
        stat = Path(f"/proc/{runner.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return fields[0] not in ("Z", "X") and int(fields[19]) == runner.start_time
    except (OSError, ValueError, IndexError):
        return False


def host_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
