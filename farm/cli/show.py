"""`farm show RUN`: what came out, device by device."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import cell, console, figure, note, outcome_text, print_json, table
from farm.cli.summary import believable, late_words, retry_words, summary
from farm.cli.summary import exit_code as code_of
from farm.domain.outcomes import ExitCode

#: What failed is shown with its first lines; the page has the whole.
_MESSAGE = 300
#: Of an incident so many characters of its summary.
_INCIDENT = 120
#: How tests stand that have no column unless some stand so.
_SOMETIMES = ("error", "running", "waiting", "unfinished", "not-run")


@click.command("show")
@click.argument("run", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output: everything the API knows of it.")
@click.option("--exit-code", is_flag=True, help="Exit as `farm run` does: with the outcome; 4 while it has none.")
def command(run: int, as_json: bool, exit_code: bool) -> int:
    """One run: devices, tests, measurements.

    Exits with 0 whatever came out of the run, unless --exit-code is given.
    """
    client = connect()
    detail = client.get(f"/api/runs/{run}")
    if as_json:
        print_json(detail)
    else:
        print_run(detail)
        note(f"\n{client.page(f'/runs/{run}')}")
    if not exit_code:
        return 0
    if detail["run"]["state"] != "ended":
        return int(ExitCode.WAIT_EXPIRED)
    return code_of(detail["run"]["outcome"])


def print_run(detail: dict[str, Any]) -> None:
    """The run on standard output, for people."""
    run, short = detail["run"], summary(detail)
    header = outcome_text(run["outcome"], run["state"])
    header.append(f"  run {run['id']}: ").append_text(cell(run["title"], "bold"))
    header.append_text(cell(f"  {run['bundle_name']} {run['bundle_hash'][:8]} · {', '.join(run['suites'])}", "dim"))
    console().print(header)
    states = [word for word in _SOMETIMES if any(attempt["tests"].get(word) for attempt in short["attempts"])]
    counted = ("PASSED", "FAILED", "SKIPPED", *(word.replace("-", " ").upper() for word in states), "MEASURED", "TRIES")
    table(
        ("JOB", "DEVICE", "OUTCOME", *counted),
        (_row(attempt, run["state"], states) for attempt in short["attempts"]),
        right=("JOB", *counted),
    )
    _print_reasons(short)
    for attempt in short["attempts"]:
        _print_failures(attempt)
    _print_retries(detail)
    _print_confirmations(detail)
    if detail["gave_up"]:
        note(f"The run gave up: {detail['gave_up']}")
    _print_incidents(short)
    _print_measurements(short)
    for line in short["warnings"]:
        note(line)


def _row(attempt: dict[str, Any], state: str, states: list[str]) -> list[object]:
    device = (attempt["device"] or "any") + (" (virtual)" if attempt["virtual"] else "")
    tests = attempt["tests"]
    bad = tests["failed"]
    return [
        attempt["job"], device, outcome_text(attempt["outcome"], state),
        tests["passed"], cell(bad, "red" if bad else ""), tests["skipped"],
        *(tests.get(word, 0) for word in states), attempt["measurements"], attempt["tries"],
    ]  # fmt: skip


def _print_reasons(short: dict[str, Any]) -> None:
    """A table of its own: a sentence beside eight columns of figures has no room in a terminal."""
    rows = [
        [attempt["job"], attempt["device"] or "any", attempt["reason"]]
        for attempt in short["attempts"]
        if attempt["outcome"] != "passed" and attempt["reason"]
    ]
    if rows:
        print()
        table(("JOB", "DEVICE", "REASON"), rows, right=("JOB",))
        print()


def _print_confirmations(detail: dict[str, Any]) -> None:
    """What a second device of the model said; it counts for nothing in the run's outcome."""
    for job in detail["jobs"]:
        if job["confirms_job_id"] is not None:
            line = cell(f"job {job['id']} ran what failed in job {job['confirms_job_id']} again on ")
            line.append_text(cell((job["device"] or {}).get("name", "a second device"))).append(": ")
            console().print(line.append_text(outcome_text(job["outcome"], job["state"])))


def _print_failures(attempt: dict[str, Any]) -> None:
    for failure in attempt["failures"]:
        line = outcome_text(failure["result"]).append_text(cell(f"  {attempt['device'] or '?'}: {failure['test']}"))
        console().print(line)
        if failure["message"]:
            console().print(cell(f"    {failure['message'][:_MESSAGE]}", "dim"))


def _print_retries(detail: dict[str, Any]) -> None:
    for job in detail["jobs"]:
        for attempt in job["attempts"]:
            if attempt["retry_reason"]:
                console().print(outcome_text(attempt["outcome"]).append_text(cell(f"  {retry_words(attempt)}")))
            if attempt["late_at"]:
                console().print(cell(late_words(attempt), "dim"))


def _print_incidents(short: dict[str, Any]) -> None:
    """What was refused to the suite, crashes, warnings: how many of each kind, and the words of the first."""
    rows = []
    for attempt in short["attempts"]:
        for klass, count in attempt["incident_counts"].items():
            first = next((one for one in attempt["incidents"] if one["class"] == klass), None)
            rows.append([klass, count, attempt["device"] or "?", (first["summary"] if first else "")[:_INCIDENT]])
    if rows:
        print()
        table(("INCIDENTS", "COUNT", "DEVICE", "THE FIRST"), rows, right=("COUNT",))


def _print_measurements(short: dict[str, Any]) -> None:
    attempts = short["attempts"]
    names = sorted({name for attempt in attempts for name in attempt["medians"]})
    if not names:
        return
    print()
    table(
        ("MEDIAN OF", *(attempt["device"] or "?" for attempt in attempts)),
        ([name, *(_median(attempt["medians"].get(name)) for attempt in attempts)] for name in names),
    )
    if any(attempt["virtual"] for attempt in attempts):
        note("Figures of virtual devices describe this machine, not the phone that they imitate.")


def _median(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "—"
    value, marks = believable(entry)
    count = f"n={entry['n_marked']}, {', '.join(marks)}" if marks else f"n={entry['n']}"
    return f"{figure(value, entry['unit'])}  {count}"
