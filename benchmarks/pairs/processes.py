"""The processes of the benchmark: started, spoken to, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 120.0


class Process:
    """A module of ours that says one line when it is up; it ends when its standard input does."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.pairs.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """Its next line; RuntimeError when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"process {self.pid} ended with {self._process.wait(10)}")
        return line

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def stop(self) -> str:
        """End it in order; what it said last."""
        if self._process.poll() is not None:
            return ""
        self._process.send_signal(signal.SIGCONT)
        try:
            return self._process.communicate("", timeout=30)[0]
        except subprocess.TimeoutExpired:
            self.kill()
            return ""


class FarmServer:
    """The farm that is measured."""

    def __init__(self, state: Path, database: str, places: int, *more: str) -> None:
        self._process = Process("server", str(state), "--places", str(places), "--database", database, *more)
        told = json.loads(self._process.line())
        self.port, self.token, self.pid = int(told["port"]), str(told["token"]), int(told["pid"])

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.signal(signal.SIGTERM)
        self._process.stop()

    def load(self, what: str, **options: object) -> dict[str, Any]:
        """Run clients to their end; what they measured."""
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        client = Process("load", what, str(self.port), self.token, *words)
        before = self.cpu_s()
        found: dict[str, Any] = json.loads(client.line())
        if found.get("pairs"):  # of the server's process alone; a busy machine makes it wait, not work more
            found["server_cpu_ms_per_pair"] = round((self.cpu_s() - before) / found["pairs"] * 1000, 2)
        client.stop()
        return found

    def cpu_s(self) -> float:
        """Processor time that the server's process has used, seconds."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def watched(self, pages: int) -> Iterator[dict[str, Any]]:
        """So many pages watch meanwhile; what they saw is in the mapping afterwards."""
        seen: dict[str, Any] = {}
        watcher = Process("load", "watch", str(self.port), self.token, "--clients", str(pages))
        watcher.line()
        try:
            yield seen
        finally:
            text = watcher.stop()
            seen.update(json.loads(text) if text.strip() else {"events": None})


def loads() -> list[float]:
    """The machine's load averages: what is measured beside others' work is worth less."""
    return [round(value, 2) for value in os.getloadavg()]
