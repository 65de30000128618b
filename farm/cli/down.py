"""`farm down`: stop the server of a state folder. Attempts in progress are taken up again by the next start."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import processes
from farm.cli.client import here
from farm.cli.demo_parts import Parts
from farm.cli.output import note
from farm.settings import load


@click.command("down")
@click.option(
    "--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE, ./.farm, or the demo's]"
)
@click.option("--all", "everything", is_flag=True, help="Its adb server and its virtual devices too.")
def command(state: Path | None, everything: bool) -> int:
    """Stop the farm on this machine.

    Its adb server and virtual devices go on, and what runs on devices is taken up again by the next `farm up`.
    """
    settings = load(state=state) if state is not None else here()
    stopped = processes.stop_server(settings)
    if everything:
        parts = Parts(settings)
        parts.stop_adb()
        parts.stop_devices()
    note(f"The farm of {settings.state} has stopped." if stopped else f"No farm runs on {settings.state}.")
    return 0
