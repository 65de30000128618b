"""`farm whoami`: which farm, as whom, with what rights."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import print_json, table
from farm.domain.words import count


@click.command("whoami")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(as_json: bool) -> int:
    """Which farm commands talk to, as whom, and what they may."""
    client = connect()
    me = client.get("/api/me")
    if as_json:
        print_json({"url": client.url, **me})
        return 0
    table(
        ("FARM", "USER", "TEAM", "ROLE", "SCOPES", "QUOTA"),
        [[client.url, me["name"], me["team"], me["role"], ", ".join(me["scopes"]), quota(me)]],
    )
    return 0


def quota(holder: dict[str, Any]) -> str:
    """`2 devices, 40 waiting`; `no limit`."""
    parts = (
        None if (most := holder["max_devices"]) is None else count(most, "device"),
        None if (most := holder["max_waiting"]) is None else f"{most} waiting",
    )
    return ", ".join(filter(None, parts)) or "no limit"
