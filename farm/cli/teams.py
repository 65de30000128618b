"""`farm teams`: list, set, remove."""

from __future__ import annotations

import click

from farm.cli.client import connect, segment
from farm.cli.output import note, print_json, table
from farm.cli.whoami import quota


@click.group("teams", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Teams: weight in the queue, quotas. Without a word: list."""
    return show(False) if ctx.invoked_subcommand is None else 0


def show(as_json: bool) -> int:
    found = connect().get("/api/teams")
    if as_json:
        print_json(found)
        return 0
    table(
        ("TEAM", "WEIGHT", "QUOTA", "USERS"),
        ([team["name"], f"{team['weight']:g}", quota(team), team["users"]] for team in found["teams"]),
        right=("WEIGHT", "USERS"),
    )
    return 0


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_teams(as_json: bool) -> int:
    """Every team with its weight and quotas."""
    return show(as_json)


@command.command("set")
@click.argument("name")
@click.option("--weight", type=click.FloatRange(0, 1000, min_open=True), help="Share of the farm, relative to others'.")
@click.option("--max-devices", type=int, help="Devices held at once; -1: no limit.")
@click.option("--max-waiting", type=int, help="Jobs that wait at once; -1: no limit.")
def change(name: str, weight: float | None, max_devices: int | None, max_waiting: int | None) -> int:
    """Make team NAME, or change it (admin); what is not given stays."""
    client = connect()
    known = next((team for team in client.get("/api/teams")["teams"] if team["name"] == name), None)
    old = known or {"weight": 1.0, "max_devices": None, "max_waiting": None}
    body = {
        "weight": old["weight"] if weight is None else weight,
        "max_devices": _figure(old["max_devices"], max_devices),
        "max_waiting": _figure(old["max_waiting"], max_waiting),
    }
    client.send("PUT", f"/api/teams/{segment(name)}", body)
    note(f"Team {name}: weight {body['weight']:g}, {quota(body)}")
    return 0


@command.command("remove")
@click.argument("name")
def remove(name: str) -> int:
    """Take team NAME away (admin); refused while somebody is in it."""
    connect().send("DELETE", f"/api/teams/{segment(name)}")
    note(f"Team {name} is gone.")
    return 0


def _figure(old: int | None, new: int | None) -> int | None:
    if new is None:
        return old
    return None if new < 0 else new
