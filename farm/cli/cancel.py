"""`farm cancel RUN`."""

from __future__ import annotations

import click

from farm.cli.client import connect
from farm.cli.output import note


@click.command("cancel")
@click.argument("run", type=click.IntRange(1))
def command(run: int) -> int:
    """Cancel a run; its evidence is collected and its devices are cleaned."""
    connect().post(f"/api/runs/{run}/cancel")
    note(f"Run {run} is being cancelled: `farm show {run}` says when it has ended.")
    return 0
