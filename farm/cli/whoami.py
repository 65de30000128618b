"""`farm whoami`: which farm, as whom, with what rights."""

from __future__ import annotations

import click

from farm.cli.client import connect
from farm.cli.output import print_json, table


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


def quota(holder: dict[str, object]) -> str:
    """`2 devices, 40 waiting`; `no limit`."""
    parts = (
        f"{holder['max_devices']} devices" if holder["max_devices"] is not None else "",
        f"{holder['max_waiting']} waiting" if holder["max_waiting"] is not None else "",
    )
    return ", ".join(filter(None, parts)) or "no limit"
