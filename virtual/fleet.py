"""Start, find and stop virtual devices from Python. Light to import: nothing here touches the farm.

running = start("pixel-8-pro", "VP8P0001", Path("/var/tmp/phones"))
…  adb connect {running.address}
stop(Path("/var/tmp/phones"), running.serial)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtual.sockets import short_path

START_S = 100.0  # longer than `virtual.hardware` gives a boot: it tells more
STOP_S = 20.0


class FleetError(Exception):
    """A device could not be started, stopped or asked; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Running:
    """A device that runs. `dir` is its own folder below the fleet's."""

    serial: str
    address: str
    pid: int
    dir: Path
    profile: str
    already_running: bool = False


def start(
    profile: str,
    serial: str,
    dir: Path,
    *,
    port: int | None = None,
    time_scale: float = 1.0,
    data_mb: int | None = None,
    limiter: str | None = None,
) -> Running:
    """Starts a device and returns when `adb connect` to its address would work. One that runs already is returned."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", serial) or serial.startswith("."):
        raise FleetError(f"serial {serial!r} must be 1 to 40 letters, digits, '_', '.' or '-'")
    if not 0.01 <= time_scale <= 10_000:
        raise FleetError(f"time scale {time_scale:g} must be between 0.01 and 10000")
    folder = Path(dir).resolve() / serial
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{serial}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two starts of one serial: the second finds the first one's device
        return _start_locked(profile, folder, port, time_scale, data_mb, limiter)


def _start_locked(
    profile: str, folder: Path, port: int | None, time_scale: float, data_mb: int | None, limiter: str | None
) -> Running:
    from virtual import hardware, sandbox
    from virtual.android.names import SERVICE_NAMES

    serial = folder.name
    for one in running(folder.parent):
        if one.serial == serial:
            return Running(one.serial, one.address, one.pid, one.dir, one.profile, already_running=True)
    try:
        sandbox.require_tools()
    except sandbox.SandboxError as error:
        raise FleetError(str(error)) from None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tools = subprocess.run(
        [sandbox.tool("toybox")], capture_output=True, text=True, check=True, timeout=10
    ).stdout.split()
    sandbox.build_system(folder / "root", list(SERVICE_NAMES), tools)
    config = hardware.Config(serial, profile, str(folder), port, time_scale, data_mb, limiter)
    return _launch(folder, hardware.config_json(config))


def _launch(folder: Path, config: str) -> Running:
    with (folder / "hardware.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "virtual.device", config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parent.parent,
        )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    deadline, line = time.monotonic() + START_S, b""
    while not line.endswith(b"\n") and time.monotonic() < deadline:
        ended = process.poll() is not None  # asked first: what it said before its end is then read in full
        piece = process.stdout.read()
        line += piece or b""
        if ended or piece == b"":
            break
        time.sleep(0.01)
    process.stdout.close()
    answer: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
    if "ready" not in answer:
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGTERM)
        log_file = folder / "hardware.log"
        raise FleetError(answer.get("error") or f"the device did not start: {_last_words(log_file)}; see {log_file}")
    _children.append(process)
    return _describe(folder, answer["ready"])


def _last_words(log: Path) -> str:
    lines = log.read_bytes()[-2000:].decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


_children: list[subprocess.Popen[bytes]] = []
"""Devices that this process has started: kept so that their exit status is collected, not to own them."""


def _describe(folder: Path, facts: dict[str, Any]) -> Running:
    return Running(facts["serial"], facts["address"], facts["pid"], folder, facts["profile"])


def running(dir: Path) -> list[Running]:
    """The devices of this folder that are alive."""
    found = []
    for path in sorted(Path(dir).glob("*/device.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            facts = json.loads(path.read_text())
            if _is_device(int(facts["pid"]), path.parent):
                found.append(_describe(path.parent.resolve(), facts))
    return found


def _is_device(pid: int, folder: Path) -> bool:
    """Whether this pid still is the device of that folder, and not somebody who got its number later."""
    for child in _children:
        child.poll()
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return b"virtual." in command and str(folder.resolve()).encode() in command and state != "Z"


def stop(dir: Path, serial: str) -> bool:
    """Switches a device off and removes its folder; False when it did not run."""
    for one in running(dir):
        if one.serial == serial:
            os.kill(one.pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_S
            while _is_device(one.pid, one.dir):
                if time.monotonic() > deadline:
                    os.kill(one.pid, signal.SIGKILL)
                    break
                time.sleep(0.02)
            shutil.rmtree(one.dir, ignore_errors=True)
            return True
    return False


def stop_all(dir: Path) -> list[str]:
    """Switches all devices of the folder off; their serials."""
    return [one.serial for one in running(dir) if stop(dir, one.serial)]


def fault(dir: Path, serial: str, kind: str, **arguments: Any) -> dict[str, Any]:
    """Asks a device for a fault (see `virtual.faults`) and returns its answer; raises `FleetError` when it refuses."""
    path = Path(dir).resolve() / serial / "control.sock"
    try:
        with short_path(path) as address, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(address)
            connection.sendall(json.dumps({"fault": kind, **arguments}).encode() + b"\n")
            with connection.makefile("rb") as file:
                answer: dict[str, Any] = json.loads(file.readline() or b'{"error": "the device went away"}')
    except OSError as error:
        raise FleetError(f"no device {serial} in {dir} ({error}); see  python -m virtual list --dir {dir}") from None
    if "error" in answer:
        raise FleetError(f"{serial}: {answer['error']}")
    return answer
