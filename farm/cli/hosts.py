"""`farm hosts`: the machines with devices, and whether they can be given work."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import ago, cell, note, print_json, table


@click.command("hosts")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(as_json: bool) -> int:
    """Hosts, and whether they can be given work now."""
    hosts: list[dict[str, Any]] = connect().get("/api/devices")["hosts"]
    if as_json:
        print_json({"hosts": hosts})
        return 0
    if not hosts:
        note("No host yet. `farm agent --host NAME` on a machine with devices makes one, `farm up` on this one.")
        return 0
    table(("HOST", "IS", "DEVICES", "HEARD OF", "WHY"), map(_row, hosts), right=("DEVICES",))
    return 0


def _row(host: dict[str, Any]) -> list[object]:
    heard = ago(host["seen_at"]) if host["seen_at"] else "never"
    state, style, why = _state(host)
    return [host["name"], cell(state, style), host["devices"], heard, why]


def _state(host: dict[str, Any]) -> tuple[str, str, str]:
    if host["silent"]:
        return "away", "red", "nothing is heard of its agent: its devices cannot be used, jobs wait for it"
    if host["drained"]:
        return "out of use", "dim", "its devices are left out of the plan"
    if host["unready"]:
        return "not-ready", "yellow", host["unready"]
    return "ready", "green", ""
