"""`farm up`: the server on this machine, in the foreground or (`--detach`) in the background."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import click

from farm.cli import processes
from farm.cli.client import connect
from farm.cli.output import note
from farm.settings import load


@click.command("up")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0: any free one.  [default: 8765]")
@click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE or ./.farm]")
@click.option("--inventory", type=click.Path(path_type=Path), help="Inventory file.  [default: ./devices.yaml]")
@click.option("--detach", is_flag=True, help="Start in the background and return.")
def command(host: str | None, port: int | None, state: Path | None, inventory: Path | None, detach: bool) -> int:
    """Start the farm on this machine.

    The first start prints the admin token, once.
    """
    settings = load(state=state, host=host, port=port, inventory=inventory)
    server = processes.running_server(settings)
    if server is not None:
        note(f"The farm of {settings.state} runs already: {server['url']} (pid {server['pid']})")
        return 0
    if not detach:
        sys.stdout.flush()
        os.execv(sys.executable, processes.server_command(settings))
    processes.start_server(dataclasses.replace(settings))
    client = connect(settings)
    link = client.post("/api/login-links")
    click.echo(f"{client.url} (log: {settings.log_file})")
    click.echo(f"Log in (once, within ten minutes): {client.page(link['path'])}")
    return 0
