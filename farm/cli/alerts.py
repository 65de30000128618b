"""`farm alerts`: what a person should see to now, and what was over lately."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import cell, moment, note, print_json, table
from farm.domain.alerts import KINDS
from farm.domain.outcomes import ExitCode


@click.command("alerts")
@click.option("--kind", type=click.Choice(KINDS), help="Only these.")
@click.option("--all", "with_cleared", is_flag=True, help="Those that are over as well.")
@click.option("--exit-code", is_flag=True, help="Exit with 2 while an alert is open.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(kind: str | None, with_cleared: bool, exit_code: bool, as_json: bool) -> int:
    """What a person should see to now: lost hosts, faults that strike together, the last device of a kind.

    Alerts clear themselves when their reason is over.
    """
    found = connect().get("/api/alerts")
    open_ones, cleared = (_of(kind, found[key]) for key in ("open", "cleared"))
    cleared = cleared if with_cleared else []
    if as_json:
        print_json({"open": open_ones, "cleared": cleared})
    elif not open_ones and not cleared:
        more = "" if with_cleared else " `farm alerts --all` lists those that are over."
        note(f"No alert{f' of the kind {kind}' if kind else ''}.{more}")
    else:
        table(("SINCE", "KIND", "OF", "OVER", "WHAT"), map(_row, open_ones + cleared))
    return int(ExitCode.FARM_TROUBLE) if exit_code and open_ones else 0


def _of(kind: str | None, alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [alert for alert in alerts if kind in (None, alert["kind"])]


def _row(alert: dict[str, Any]) -> list[object]:
    over = alert["cleared_at"]
    state = cell(moment(over), "dim") if over else cell("it holds", "magenta")
    return [moment(alert["at"]), alert["kind"], alert["ref"], state, alert["message"]]
