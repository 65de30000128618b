"""Runs the engine and reads its event stream."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 120

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What one run of the engine left: its exit status (negative: the signal), both outputs, the events."""

    status: int
    events: list[Event]
    stderr: str

    def kind(self, kind: str) -> list[Event]:
        """All events of one kind."""
        return [event for event in self.events if event["ev"] == kind]

    def one(self, kind: str) -> Event:
        """The only event of a kind."""
        (event,) = self.kind(kind)
        return event

    @property
    def token_ids(self) -> list[int]:
        """Ids of all generated tokens."""
        return [event["id"] for event in self.kind("token")]


def run_engine(
    program: Path,
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> EngineRun:
    """Runs the engine with its events on standard output."""
    done = subprocess.run(
        [program, *arguments, "--events", "-"],
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=TIMEOUT_S,
        check=False,
        preexec_fn=before,
    )
    events = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    return EngineRun(done.returncode, events, done.stderr.decode("utf-8", "replace"))
