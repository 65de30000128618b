"""`farm bundle`: build (send a folder), list, check (what would be refused, without a farm)."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.client import connect
from farm.cli.content import print_list, print_sent
from farm.cli.output import note
from farm.domain.words import count, size


@click.group("bundle")
def command() -> None:
    """Engine bundles: build, list, check."""


@command.command("build")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def build(folder: Path, as_json: bool) -> int:
    """Make a bundle of FOLDER (with bundle.yaml) and send what the farm lacks of it."""
    from farm.cli.upload import send_bundle

    return print_sent(send_bundle(connect(), folder), as_json)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_bundles(as_json: bool) -> int:
    """Bundles, newest first."""
    return print_list(
        "bundles",
        "No bundle yet. Make one of a folder with bundle.yaml: `farm bundle build FOLDER`.",
        ("VERSION", "ABIS", "MODELS"),
        lambda row: (row["version"], ", ".join(row["abis"]), ", ".join(row["models"])),
        as_json,
    )


@command.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def check(folder: Path) -> int:
    """Check FOLDER without a farm: manifest, files, and that programs fit their ABI and can be started."""
    from farm.cli.upload import read_bundle_folder
    from farm.domain.manifests import content_bytes, content_hash

    manifest = read_bundle_folder(folder).manifest
    files = count(len(manifest["content"]), "file")
    note(f"✓ {manifest['name']} {manifest['version']}: {files}, {size(content_bytes(manifest))}")
    click.echo(content_hash(manifest))
    return 0
