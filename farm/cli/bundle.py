"""`farm bundle`: build (send a folder), list, check (what would be refused, without a farm)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import click

from farm.cli.client import connect
from farm.cli.errors import CliError
from farm.cli.output import ago, note, print_json, size, table
from farm.domain.outcomes import ExitCode

#: ELF e_machine (and class) of each ABI name that Android uses.
MACHINES = {"x86_64": (62, 2), "arm64-v8a": (183, 2), "armeabi-v7a": (40, 1), "x86": (3, 1), "riscv64": (243, 2)}


@click.group("bundle")
def command() -> None:
    """Engine bundles: build, list, check."""


@command.command("build")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def build(folder: Path, as_json: bool) -> int:
    """Make a bundle of FOLDER (with bundle.yaml) and send what the farm lacks of it."""
    from farm.cli.upload import read_bundle_folder, send_bundle

    _refuse_wrong_abi(folder, read_bundle_folder(folder).manifest)
    made = send_bundle(connect(), folder)
    if as_json:
        print_json(made)
    else:
        click.echo(made["hash"])
        note(f"{made['name']}, {size(made['bytes'])}, {'new' if made['new'] else 'was there already'}")
    return 0


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_bundles(as_json: bool) -> int:
    """Bundles, newest first."""
    found = connect().get("/api/bundles")
    if as_json:
        print_json(found)
    elif not found["bundles"]:
        note("No bundle yet. Make one of a folder with bundle.yaml: `farm bundle build FOLDER`.")
    else:
        rows = (
            [row["hash"][:12], row["name"], row["version"], ", ".join(row["abis"]), ", ".join(row["models"]),
             size(row["bytes"]), ago(row["created_at"])]
            for row in found["bundles"]
        )  # fmt: skip
        table(("HASH", "NAME", "VERSION", "ABIS", "MODELS", "SIZE", "SENT"), rows, right=("SIZE",))
    return 0


@command.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def check(folder: Path) -> int:
    """Check FOLDER without a farm: manifest, files, and that executables are of the ABI that they are declared for."""
    from farm.cli.upload import read_bundle_folder
    from farm.domain.manifests import content_bytes, content_hash

    manifest = read_bundle_folder(folder).manifest
    _refuse_wrong_abi(folder, manifest)
    count = len(manifest["content"])
    note(f"✓ {manifest['name']} {manifest['version']}: {count} files, {size(content_bytes(manifest))}")
    click.echo(content_hash(manifest))
    return 0


def _refuse_wrong_abi(folder: Path, manifest: dict[str, Any]) -> None:
    wrong = [
        words
        for abi, files in manifest["files"].items()
        for path in files.values()
        if (words := wrong_abi(folder / path, abi))
    ]
    if wrong:
        raise CliError("; ".join(wrong), "build it for that ABI, or declare it under its own", ExitCode.REFUSED)


def wrong_abi(path: Path, abi: str) -> str | None:
    """Why an ELF file does not fit its ABI; None when it does, is no ELF file, or the ABI is not known here."""
    with path.open("rb") as file:
        head = file.read(20)
    if not head.startswith(b"\x7fELF") or len(head) < 20 or abi not in MACHINES:
        return None
    (machine,) = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)
    if (machine, head[4]) == MACHINES[abi]:
        return None
    found = next((name for name, entry in MACHINES.items() if entry == (machine, head[4])), f"machine {machine}")
    return f"{path.name} is declared for {abi} but built for {found}"
