"""`farm suite`: pack (send a folder), list."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.client import connect
from farm.cli.output import ago, note, print_json, size, table


@click.group("suite")
def command() -> None:
    """Suite packs: pack, list."""


@command.command("pack")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def pack(folder: Path, as_json: bool) -> int:
    """Make a suite pack of FOLDER (with suite.yaml) and send what the farm lacks of it."""
    from farm.cli.upload import send_pack

    made = send_pack(connect(), folder)
    if as_json:
        print_json(made)
    else:
        click.echo(made["hash"])
        note(f"{made['name']}, {size(made['bytes'])}, {'new' if made['new'] else 'was there already'}")
    return 0


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_packs(as_json: bool) -> int:
    """Suite packs, newest first."""
    found = connect().get("/api/packs")
    if as_json:
        print_json(found)
    elif not found["packs"]:
        note("No suite pack yet. Make one of a folder with suite.yaml: `farm suite pack FOLDER`.")
    else:
        rows = (
            [row["hash"][:12], row["name"], ", ".join(suite["name"] for suite in row["suites"]),
             size(row["bytes"]), ago(row["created_at"])]
            for row in found["packs"]
        )  # fmt: skip
        table(("HASH", "NAME", "SUITES", "SIZE", "SENT"), rows, right=("SIZE",))
    return 0
