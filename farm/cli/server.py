"""`farm server`: one of any number of servers of a farm on PostgreSQL, in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from farm.cli import processes
from farm.settings import load, refuse_sqlite


@click.command("server")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0: any free one.  [default: 8765]")
@click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE or ./.farm]")
def command(host: str | None, port: int | None, state: Path | None) -> None:
    """Serve API and pages of a farm of several processes, and plan when no other server does.

    It needs FARM_DATABASE_URL (PostgreSQL) and FARM_ARTIFACTS, the same for every server and agent. Devices belong to
    `farm agent`. A farm of one machine needs neither: `farm up`.
    """
    settings = load(state=state, host=host, port=port)
    refuse_sqlite(settings, "farm server")
    sys.stdout.flush()
    os.execv(sys.executable, [*processes.server_command(settings), "--no-agent"])
