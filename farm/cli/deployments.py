"""`farm deployments`: how often a bundle does not get onto a device or does not load, and why."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.clusters import rate_words
from farm.cli.output import cell, console, note, print_json, table


@click.command("deployments")
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How far to look back.")
@click.option("--bundle", help="Only this bundle: a name or a hash.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(days: int, bundle: str | None, as_json: bool) -> int:
    """Deployment failure rate by cause, bundle, device model and day."""
    found = connect().get("/api/deployments", {"days": days, "bundle": bundle})
    if as_json:
        print_json(found)
        return 0
    if not found["counted"]:
        note(f"No attempt of the last {days} days says anything of its deployment.")
        return 0
    console().print(cell(f"failed deployments, {days} days: {rate_words(found['overall'])}"))
    covered = found["covered"]
    if covered["total"]:
        console().print(cell(f"of those whose precheck passed, failed of what it covers: {rate_words(covered)}"))
    _list("CAUSE", [(share["cause"], share["rate"]) for share in found["causes"]])
    for title, key in (("BUNDLE", "bundles"), ("DEVICE MODEL", "models"), ("DAY", "days")):
        _list(title, [(group["name"], group["rate"]) for group in found[key]])
    return 0


def _list(title: str, rows: list[tuple[str, dict[str, Any]]]) -> None:
    if rows:
        table((title, "FAILED (95 % INTERVAL)"), ([name, rate_words(rate)] for name, rate in rows))
