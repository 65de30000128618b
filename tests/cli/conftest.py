from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
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
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    done = subprocess.run(
        [sys.executable, "-m", "farm.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=clean
        | {
            "FARM_STATE": str(state),
            "FARM_LOCKS": os.environ["FARM_LOCKS"],
            "FARM_CREDENTIALS": str(state / "credentials.json"),
        }
        | env,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def farm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One farm for the tests of a module."""
    with serve(tmp_path_factory.mktemp("farm")) as served:
        yield served
