"""`farm show RUN`: what came out, device by device."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import cell, console, figure, note, outcome_text, print_json, table
from farm.cli.summary import believable, summary

#: What failed is shown with its first lines; the page has the whole.
_MESSAGE = 300


@click.command("show")
@click.argument("run", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output: everything the API knows of it.")
def command(run: int, as_json: bool) -> int:
    """One run: devices, tests, measurements."""
    client = connect()
    detail = client.get(f"/api/runs/{run}")
    if as_json:
        print_json(detail)
        return 0
    print_run(detail)
    note(f"\n{client.page(f'/runs/{run}')}")
    return 0


def print_run(detail: dict[str, Any]) -> None:
    """The run on standard output, for people."""
    run, short = detail["run"], summary(detail)
    header = outcome_text(run["outcome"], run["state"])
    header.append(f"  run {run['id']}: ").append_text(cell(run["title"], "bold"))
    header.append_text(cell(f"  {run['bundle_name']} {run['bundle_hash'][:8]} · {', '.join(run['suites'])}", "dim"))
    console().print(header)
    table(
        ("DEVICE", "OUTCOME", "PASSED", "FAILED", "SKIPPED", "MEASURED", "TRIES", ""),
        (_row(attempt, run["state"]) for attempt in short["attempts"]),
        right=("PASSED", "FAILED", "SKIPPED", "MEASURED", "TRIES"),
    )
    _print_failures(detail)
    _print_measurements(short)


def _row(attempt: dict[str, Any], state: str) -> list[object]:
    device = (attempt["device"] or "any") + (" (virtual)" if attempt["virtual"] else "")
    tests = attempt["tests"]
    bad = tests["failed"] + tests["error"]
    passed = attempt["outcome"] == "passed"
    return [
        device, outcome_text(attempt["outcome"], state), tests["passed"], cell(bad, "red" if bad else ""),
        tests["skipped"], attempt["measurements"], attempt["tries"], "" if passed else attempt["reason"] or "",
    ]  # fmt: skip


def _print_failures(detail: dict[str, Any]) -> None:
    columns = [column["device"] for column in detail["matrix"]["columns"]]
    for row in detail["matrix"]["rows"]:
        for device, entry in zip(columns, row["cells"], strict=True):
            if entry and entry["outcome"] in ("failed", "error"):
                name = device["name"] if device else "?"
                line = outcome_text("failed").append_text(cell(f"  {name}: {row['test_id']}"))
                console().print(line)
                console().print(cell(f"    {(entry['message'] or '')[:_MESSAGE]}", "dim"))


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
