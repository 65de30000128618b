"""Starts and stops the server of a state folder, and tells its process from another one with the same pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from farm.cli.client import read_server
from farm.cli.errors import CliError
from farm.cli.output import note
from farm.settings import Settings, load

START_S = 60.0
STOP_S = 30.0
_MOST_TOKEN = 200


def start_time(pid: int) -> str | None:
    """When the process began, in the kernel's ticks: pid and this together name a process. None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def running_server(settings: Settings) -> dict[str, object] | None:
    """`{"pid", "start_time", "url"}` of the server that runs on this state folder now; None: none does."""
    server = read_server(settings)
    if server is None or not isinstance(server.get("pid"), int):
        return None
    return server if start_time(server["pid"]) == server.get("start_time") else None


def farm_at(port: int) -> tuple[Path, dict[str, object]] | None:
    """The farm of this machine that serves at `port`: its state folder, and what `running_server` tells of it.

    None: none does, or it is another user's.
    """
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
        except OSError:  # no process, or gone meanwhile
            continue
        if "farm.server" in words and "--state" in words[:-1]:
            state = Path(words[words.index("--state") + 1])
            server = running_server(load(state=state))
            if server is not None and urlsplit(str(server["url"])).port == port:
                return state, server
    return None


def server_command(settings: Settings) -> list[str]:
    return [
        *(sys.executable, "-m", "farm.server"),
        *("--state", str(settings.state)),
        *("--host", settings.host),
        *("--port", str(settings.port)),
        *("--inventory", str(settings.inventory)),
    ]


def start_server(settings: Settings) -> subprocess.Popen[bytes]:
    """Start the server in the background (own session, log in the state folder) and wait until it answers.

    The first start's admin token is told here, once; the log does not hold it.
    """
    settings.state.mkdir(parents=True, exist_ok=True)
    hear, tell = os.pipe()
    with settings.log_file.open("ab") as log, os.fdopen(hear) as token:
        try:
            process = subprocess.Popen(
                [*server_command(settings), "--token-fd", str(tell)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(tell,),
            )
        finally:
            os.close(tell)
        _wait_for_server(settings, process)
        if secret := token.read(_MOST_TOKEN):
            note(f"Admin token, shown this once: {secret}")
    return process


def _wait_for_server(settings: Settings, process: subprocess.Popen[bytes]) -> None:

    def answers() -> bool:
        if process.poll() is not None:
            raise CliError(
                f"the server ended with {process.returncode} while starting: {last_line(settings.log_file)}",
                f"its log is {settings.log_file}",
            )
        server = read_server(settings)
        return server is not None and server.get("pid") == process.pid and is_healthy(str(server["url"]))

    try:
        wait_until(answers, START_S, f"the server to answer (its log: {settings.log_file})")
    except BaseException:
        end_group(process)
        raise


def stop_server(settings: Settings) -> bool:
    """Stop the server of the state folder; False when none runs. Raises CliError when it will not end."""
    server = running_server(settings)
    if server is None:
        return False
    pid, began = int(str(server["pid"])), server["start_time"]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: start_time(pid) != began, STOP_S, f"the server (pid {pid}) to end; `kill -9 {pid}` ends it hard")
    return True


def end_group(process: subprocess.Popen[bytes], grace_s: float = 10.0) -> None:
    """End a child that leads its own process group: politely, then not."""
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


class WaitedInVain(CliError):
    """The limit of a wait was reached."""


def wait_until(condition: Callable[[], bool], limit_s: float, what: str, every_s: float = 0.05) -> None:
    """Poll until `condition` holds; WaitedInVain after `limit_s` seconds names what was waited for."""
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= until:
            raise WaitedInVain(f"waited {limit_s:g} s in vain for {what}")
        time.sleep(every_s)


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    try:
        lines = log.read_bytes()[-4000:].decode("utf-8", "replace").splitlines()
    except OSError:
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
