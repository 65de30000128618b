"""`farm backup`: a farm in one file; it goes on meanwhile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from farm.settings import load

STATE = click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: FARM_STATE or ./.farm]")


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--files", is_flag=True, help="The artifacts too, not only their list.")
@STATE
def command(file: Path, files: bool, state: Path | None) -> None:
    """Write every row of the farm, as of one moment, into FILE. The farm goes on meanwhile.

    Artifacts lie in a store of their own; FILE names those that belong to the rows. `--files` takes them along.
    """
    become("save", file, state, *(["--files"] if files else []))


def become(what: str, file: Path, state: Path | None, *more: str) -> None:
    """Go on as the process that does it: the command line itself knows no database."""
    settings = load(state=state)
    sys.stdout.flush()
    command = [sys.executable, "-m", "farm.backup", what, str(file), "--state", str(settings.state), *more]
    os.execv(sys.executable, command)
