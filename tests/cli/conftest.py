from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.served import Served, serve


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def farm(*arguments: str, state: Path, cwd: Path | None = None, timeout: float = 120, **env: str) -> Done:
    """Run the `farm` command as a person would: a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "farm.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=_environment(state) | env,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _environment(state: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return clean | {
        "FARM_STATE": str(state),
        "FARM_LOCKS": os.environ["FARM_LOCKS"],
        "FARM_CREDENTIALS": str(state / "credentials.json"),
    }


def at_a_terminal(*arguments: str, state: Path, columns: int) -> tuple[int, list[str]]:
    """(exit code, lines without colours) of the `farm` command whose standard output is a terminal so wide."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "farm.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=_environment(state) | {"COLUMNS": str(columns), "TERM": "xterm"},
        )
        os.close(theirs)
        written = b""
        with suppress(OSError):  # EIO: the other end is closed
            while piece := terminal.read(65536):
                written += piece
        code = process.wait(timeout=120)
    return code, re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).replace("\r", "").split("\n")


@pytest.fixture(scope="module")
def farm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One farm for the tests of a module."""
    with serve(tmp_path_factory.mktemp("farm")) as served:
        yield served
