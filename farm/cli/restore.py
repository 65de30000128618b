"""`farm restore`: an empty farm is filled from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.backup import STATE, become


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@STATE
def command(file: Path, state: Path | None) -> None:
    """Fill an empty farm from FILE. Refused where a farm runs, or where there are rows already."""
    become("restore", file, state)
