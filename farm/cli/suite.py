"""`farm suite`: pack (send a folder), list."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.client import connect
from farm.cli.content import print_list, print_sent


@click.group("suite")
def command() -> None:
    """Suite packs: pack, list."""


@command.command("pack")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def pack(folder: Path, as_json: bool) -> int:
    """Make a suite pack of FOLDER (with suite.yaml) and send what the farm lacks of it."""
    from farm.cli.upload import send_pack

    return print_sent(send_pack(connect(), folder), as_json)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_packs(as_json: bool) -> int:
    """Suite packs, newest first."""
    return print_list(
        "packs",
        "No suite pack yet. Make one of a folder with suite.yaml: `farm suite pack FOLDER`.",
        ("SUITES",),
        lambda row: (", ".join(suite["name"] for suite in row["suites"]),),
        as_json,
    )
