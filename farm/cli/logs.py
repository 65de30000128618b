"""`farm logs`: what an attempt's runner or device wrote; `-f` goes on until it ends."""

from __future__ import annotations

import codecs
import sys
import time
from typing import Any

import click

from farm.cli.client import Client, HttpError, connect
from farm.cli.errors import CliError, plain
from farm.cli.output import note
from farm.domain.outcomes import ExitCode

#: How often a log that stands still is asked for more, seconds.
POLL_S = 0.5


@click.command("logs")
@click.argument("target", metavar="RUN|RUN:DEVICE|ATTEMPT")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt ends.")
@click.option("--attempt", "is_attempt", is_flag=True, help="TARGET is the number of an attempt, not of a run.")
@click.option("--which", type=click.Choice(["runner", "logcat"]), default="runner", show_default=True)
@click.option("--tail", type=click.IntRange(1), metavar="BYTES", help="Begin so far before the end.")
def command(target: str, follow: bool, is_attempt: bool, which: str, tail: int | None) -> int:
    """The log of a run's attempts, of its attempt on one device (RUN:DEVICE), or (`--attempt`, or `a17`) of one."""
    client = connect()
    attempts = _attempts(client, target, is_attempt)
    for attempt, title in attempts:
        heading = f"── {title} ──" if len(attempts) > 1 else ""
        if not _print_log(client, attempt, which, follow, -tail if tail else 0, heading):
            note(f"── {title}: no {which} log ──")
    return 0


def _attempts(client: Client, target: str, is_attempt: bool) -> list[tuple[int, str]]:
    """(attempt, title) in the order of the run's jobs."""
    number = target.removeprefix("a")
    if is_attempt or number != target:
        return [(_number(number), f"attempt {number}")]
    run, _, device = target.partition(":")
    detail: dict[str, Any] = client.get(f"/api/runs/{_number(run)}")
    found = [
        (entry["id"], f"{entry['device']['name']}, attempt {entry['id']}")
        for job in detail["jobs"]
        for entry in job["attempts"]
        if device in ("", entry["device"]["name"], entry["device"]["serial"])
    ]
    if not found:
        where = f" on {device!r}" if device else " yet"
        raise CliError(
            f"run {run} has no attempt{where}", f"`farm show {run}` says what it waits for", ExitCode.REFUSED
        )
    return found


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise CliError(f"{text!r} is no number of a run or an attempt", "`farm runs` lists them", ExitCode.REFUSED)
    return int(text)


def _print_log(client: Client, attempt: int, which: str, follow: bool, offset: int, heading: str) -> bool:
    """Whether there was anything to print; the heading stands above it."""
    said = False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at_terminal = sys.stdout.isatty()
    while True:
        try:
            data, headers = client.text(f"/api/attempts/{attempt}/log", {"which": which, "offset": offset})
        except HttpError as error:
            if error.status == 404:
                raise CliError(error.message, "`farm runs` lists the runs", ExitCode.REFUSED) from None
            raise
        if data and not said and heading:
            note(heading)
        said = said or bool(data)
        text = decoder.decode(data)
        sys.stdout.write(plain(text) if at_terminal else text)
        sys.stdout.flush()
        offset = int(headers.get("x-log-next", 0))
        if data:
            continue
        if not follow or headers.get("x-log-live") != "true":
            return said
        time.sleep(POLL_S)
