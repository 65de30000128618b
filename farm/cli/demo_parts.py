"""The parts that `farm demo` builds, starts and stops: engine, virtual devices, adb server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from farm.cli.errors import CliError
from farm.cli.processes import STOP_S, end_group, last_line, wait_until
from farm.settings import Settings

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD_S = 1800.0
#: What the suites use; less to push to three devices than all of them.
MODELS = "tiny-q4_0,small-q4_0"
START_S = 120.0


@dataclass(frozen=True, slots=True)
class Virtual:
    """A virtual device of the demo."""

    serial: str
    profile: str


DEVICES = (
    Virtual("virtual-pixel-8-pro", "pixel-8-pro"),
    Virtual("virtual-rk3568", "rk3568"),
    Virtual("virtual-dimensity-9300", "dimensity-9300"),
)


@dataclass(frozen=True, slots=True)
class AdbProcess:
    """A farm's own adb server, as its state folder remembers it."""

    pid: int
    port: int

    @property
    def runs(self) -> bool:
        """Whether that process is (still) that adb server, and no other program with its pid."""
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            return False
        return f"-P {self.port} server".encode() in command


def adb_server(state: Path) -> AdbProcess | None:
    """The adb server that the farm of `state` started last; None: none was ever started."""
    try:
        told = json.loads((state / "adb-server.json").read_text())
        return AdbProcess(int(told["pid"]), int(told["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Parts:
    """What a demo builds and starts. Everything that it runs is known, so that `interrupt` can end it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._children: set[subprocess.Popen[bytes]] = set()
        self._interrupted = False
        self._lock = threading.Lock()

    @property
    def build_log(self) -> Path:
        return self._settings.state / "logs" / "build.log"

    def build_bundle(self) -> Path:
        """The reference engine as a bundle's folder; built where it is not yet. Raises CliError."""
        folder = self._settings.state / "bundle"
        self._python("build", BUILD_S, "engine.package", "--out", str(folder), "--models", MODELS)
        return folder

    def start_device(self, device: Virtual) -> None:
        """Start it; one that runs already is no error."""
        named = ("--profile", device.profile, "--serial", device.serial)
        self._python(device.serial, START_S, "virtual", "start", *named, "--dir", self._virtual, "--json")

    def death_of(self, device: Virtual) -> str | None:
        """The last words of a device whose process has ended though nobody stopped it; None while it runs."""
        folder = self._settings.state / "virtual" / device.serial
        try:
            pid = int(json.loads((folder / "device.json").read_text())["pid"])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, KeyError, TypeError):
            command = b""
        if os.fsencode(folder.resolve()) in command:
            return None
        words = last_line(folder / "hardware.log")
        return "killed, or at its end without a word" if words in ("no log", "its log is empty") else words

    def stop_devices(self) -> None:
        """Stop every virtual device of the state folder."""
        self._python("stop", START_S, "virtual", "stop", "--all", "--dir", self._virtual)

    def stop_adb(self) -> None:
        """End the farm's own adb server, which outlives the farm while runners use it and refuses `kill-server`."""
        found = adb_server(self._settings.state)
        if found is not None and found.runs:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGTERM)
            wait_until(lambda: not found.runs, STOP_S, f"the adb server (pid {found.pid}) to end")

    def interrupt(self) -> None:
        """End what is being built or started now, and let nothing more begin until `resume`."""
        with self._lock:
            self._interrupted = True
            children = list(self._children)
        for child in children:
            end_group(child)

    def resume(self) -> None:
        with self._lock:
            self._interrupted = False

    @property
    def _virtual(self) -> str:
        return str(self._settings.state / "virtual")

    def _python(self, name: str, limit_s: float, *arguments: str) -> None:
        """Run `python -m …` of this project. Its words go to a log, whose end an error shows."""
        log = self._settings.state / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        what = " ".join(arguments[:2])
        with log.open("wb") as words:
            child = self._begin([sys.executable, "-m", *arguments], words)
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise CliError(f"{what} took longer than {limit_s:g} s", f"its log is {log}") from None
        finally:
            end_group(child)
            with self._lock:
                self._children.discard(child)
        if child.returncode != 0:
            raise CliError(f"{what} failed with {child.returncode}: {last_line(log)}", f"its log is {log}")

    def _begin(self, line: list[str], words: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._interrupted:
                raise CliError("interrupted")
            child = subprocess.Popen(
                line,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
            self._children.add(child)
            return child
