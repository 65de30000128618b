"""`farm agent`: the work of one host of a farm on PostgreSQL, in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from farm.settings import load, refuse_sqlite


@click.command("agent")
@click.option("--host", "name", help="Name of this host in the farm.  [default: FARM_HOST_NAME or local]")
@click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE or ./.farm]")
@click.option("--inventory", type=click.Path(path_type=Path), help="Inventory file.  [default: ./devices.yaml]")
@click.option("--server", "servers", multiple=True, help="A server's address.  [default: those in the database]")
def command(name: str | None, state: Path | None, inventory: Path | None, servers: tuple[str, ...]) -> None:
    """Look after the devices of this machine, and run what the farm plans on them.

    It needs FARM_DATABASE_URL (PostgreSQL) and FARM_ARTIFACTS, the same for every server and agent. One agent per host
    name: a second one is refused.
    """
    settings = load(state=state, inventory=inventory, host_name=name, servers=servers)
    refuse_sqlite(settings, "farm agent")
    sys.stdout.flush()
    command = [sys.executable, "-m", "farm.agent", "--host", settings.host_name, "--state", str(settings.state)]
    command += ["--inventory", str(settings.inventory)]
    os.execv(sys.executable, command + [part for url in settings.servers for part in ("--server", url)])
