"""`farm down`: stop the server of a state folder. Attempts in progress are taken up again by the next start."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import processes
from farm.cli.output import note
from farm.settings import load


@click.command("down")
@click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE or ./.farm]")
def command(state: Path | None) -> int:
    """Stop the farm on this machine."""
    settings = load(state=state)
    stopped = processes.stop_server(settings)
    note("The farm has stopped." if stopped else f"No farm runs on {settings.state}.")
    return 0
