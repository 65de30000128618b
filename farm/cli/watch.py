"""Waiting for a run while showing it: progress bars for a person at a terminal, lines for a log.

What changed comes as server-sent events; the state itself is read from the run. A farm that goes away in the middle is
waited for: it may be restarting, and a run survives that.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from farm.cli.client import Client, Unreachable
from farm.cli.errors import CliError
from farm.cli.output import cell, note, outcome_text
from farm.cli.summary import retry_words
from farm.domain.outcomes import ExitCode, Outcome
from farm.domain.words import count

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: A farm that does not answer for so long is given up.
AWAY_S = 180.0
#: The state is read at least this often, whatever the events say.
REFRESH_S = 5.0
#: Changes that come together are shown together.
GATHER_S = 0.2

#: A figure in the words of a wait.
_FIGURE = re.compile(r"[0-9.]+")

Show = Callable[[dict[str, Any]], None]


def wait_for_run(client: Client, run_id: int, limit_s: float, show: Show) -> dict[str, Any]:
    """The run's detail once it has ended. Raises CliError WAIT_EXPIRED after `limit_s` seconds."""
    until = time.monotonic() + limit_s
    with _changes(client, run_id) as changed:
        while True:
            detail = _read(client, run_id, until)
            show(detail)
            if detail["run"]["state"] == "ended":
                return detail
            left = until - time.monotonic()
            if left <= 0:
                raise CliError(
                    f"run {run_id} has not ended within {limit_s:g} s; it goes on",
                    f"`farm show {run_id}` looks at it, `farm cancel {run_id}` ends it",
                    ExitCode.WAIT_EXPIRED,
                )
            if changed.wait(min(REFRESH_S, left)):
                time.sleep(GATHER_S)
                changed.clear()


def _read(client: Client, run_id: int, until: float) -> dict[str, Any]:
    away_until = min(until, time.monotonic() + AWAY_S)
    told = False
    while True:
        try:
            detail: dict[str, Any] = client.get(f"/api/runs/{run_id}")
            return detail
        except Unreachable:
            if time.monotonic() >= away_until:
                raise
            if not told:
                note("the farm does not answer; waiting for it to come back …")
                told = True
            time.sleep(0.5)


@contextmanager
def _changes(client: Client, run_id: int) -> Iterator[threading.Event]:
    """An event that is set whenever something of the run changed; kept alive over lost connections."""
    changed, over = threading.Event(), threading.Event()

    def listen() -> None:
        last: str | None = None
        while not over.is_set():
            try:
                for event in client.events({"run": run_id}, last):
                    last = event.id or last
                    if event.name:
                        changed.set()
                    if over.is_set():
                        return
            except CliError:
                pass
            over.wait(0.5)

    threading.Thread(target=listen, name="farm-events", daemon=True).start()
    try:
        yield changed
    finally:
        over.set()


def progress_of(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """Per job: device, phase, tests done and known (None: not collected yet), what it waits for, outcome."""
    rows = []
    for job in detail["jobs"]:
        attempt = job["attempts"][-1] if job["attempts"] else None
        device, waiting = (attempt or job)["device"], job["state"] == "queued"
        rows.append(
            {
                "job": job["id"],
                "device": device["name"] if device else f"job {job['ordinal']}",
                "phase": job["state"] if waiting or not attempt else _phase(attempt),
                "done": job["progress"]["done"],
                "total": job["progress"]["known"],
                "waits": _waits(job, attempt),
                "outcome": job["outcome"],
                "try": attempt["number"] if attempt else 0,
            }
        )
    return rows


def _waits(job: dict[str, Any], attempt: dict[str, Any] | None) -> str:
    """What it waits for; in the queue with the number that `farm why` takes."""
    if job["state"] != "queued" and attempt:
        return attempt["waiting_for"] or ""
    return f"job {job['id']}: {job['wait_reason']}" if job["wait_reason"] else ""


def _phase(attempt: dict[str, Any]) -> str:
    """`execute`; `clean after device-lost` where the end is known already and what follows it goes on."""
    phase, outcome = str(attempt["phase"]), attempt["outcome"]
    return phase if outcome in (None, Outcome.PASSED.value) else f"{phase} after {outcome}"


class Retries:
    """Tells each retry once, with its reason: that is why a bar stands still or a device is another one."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def fresh(self, detail: dict[str, Any]) -> list[str]:
        """Sentences about the tries that ended and are followed by another, of which none was told yet."""
        lines = []
        for job in detail["jobs"]:
            for attempt in job["attempts"]:
                if attempt["retry_reason"] and attempt["id"] not in self._told:
                    self._told.add(attempt["id"])
                    lines.append(retry_words(attempt))
        return lines


class Lines:
    """One line per change, for logs and pipes."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}
        self._retries = Retries()
        self._began = time.monotonic()

    def __call__(self, detail: dict[str, Any]) -> None:
        for line in self._retries.fresh(detail):
            self._say(line)
        for row in progress_of(detail):
            state = row["outcome"] or row["phase"]
            tests = f" {row['done']}/{count(row['total'], 'test')}" if row["total"] else ""
            line = f"{row['device']}: {state}{tests}"
            waits = f" ({row['waits']})" if row["waits"] and not row["outcome"] else ""
            news = line + _FIGURE.sub("", waits)  # a temperature that falls is none
            if self._seen.get(row["job"]) != news:
                self._seen[row["job"]] = news
                self._say(line + waits)

    def _say(self, line: str) -> None:
        note(f"{time.monotonic() - self._began:7.1f} s  {line}")


class Bars:
    """A progress bar per device, redrawn in place."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[int, TaskID] = {}
        self._retries = Retries()

    def __call__(self, detail: dict[str, Any]) -> None:
        for line in self._retries.fresh(detail):
            self._progress.console.print(cell(line, "magenta"))
        for row in progress_of(detail):
            if row["job"] not in self._tasks:
                self._tasks[row["job"]] = self._progress.add_task("", total=None, device="", state="", tests="")
            state = outcome_text(row["outcome"]) if row["outcome"] else cell(row["phase"], "cyan")
            if row["waits"] and not row["outcome"]:
                state.append(f" ({cell(row['waits'])})", style="dim")
            self._progress.update(
                self._tasks[row["job"]],
                total=row["total"] or None,
                completed=row["done"],
                device=cell(row["device"]),
                tests=f"{row['done']}/{row['total']}" if row["total"] else "",
                state=state,
            )


@contextmanager
def shown() -> Iterator[Show]:
    """How progress is shown on standard error: bars at a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
    from rich.text import Text

    from farm.cli.output import console

    class Field(ProgressColumn):
        """A field of the task as it is: no markup is read from it."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

        def render(self, task: Task) -> Text:
            value = task.fields[self._name]
            return value if isinstance(value, Text) else Text(str(value))

    columns = (Field("device"), BarColumn(bar_width=24), Field("tests"), TimeElapsedColumn(), Field("state"))
    with Progress(*columns, console=console(stderr=True), refresh_per_second=8) as progress:
        yield Bars(progress)
