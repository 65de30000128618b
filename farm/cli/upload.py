"""Sends a bundle or a suite pack: the manifest first, then the files that the farm lacks.

The manifest is made here (every file's SHA-256, size and mode) by the rules of `farm.domain`; the farm checks it anew.
What it has already, whoever sent it, is not sent again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from farm.cli.client import Client, HttpError
from farm.cli.errors import CliError
from farm.cli.output import note
from farm.domain.bundles import bundle_paths, read_bundle
from farm.domain.executables import HEAD, misfits
from farm.domain.manifests import ManifestError, normal_mode
from farm.domain.outcomes import ExitCode
from farm.domain.packs import read_pack, takes_file, takes_folder
from farm.domain.words import count, size

BLOCK = 1 << 20
_MAX_TEXT = 1 << 20
Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Packed:
    """A folder as a manifest; `paths` finds a file by its hash."""

    manifest: dict[str, Any]
    paths: dict[str, Path]


def read_bundle_folder(folder: Path) -> Packed:
    """The bundle in `folder`: bundle.yaml and all that it names; programs must fit their ABI. Raises CliError."""
    try:
        declared = read_bundle(_text(folder, "bundle.yaml"))
    except ManifestError as wrong:
        raise _refused(wrong) from None
    packed = _pack(folder, declared, sorted(bundle_paths(declared)))
    misfit = misfits(packed.manifest, lambda path: _head(folder / path))
    if misfit:
        raise CliError(
            "; ".join(misfit), "make the file what bundle.yaml says of it, or the other way", ExitCode.REFUSED
        )
    return packed


def read_pack_folder(folder: Path) -> Packed:
    """The suite pack in `folder`: suite.yaml and every file below. Raises CliError."""
    try:
        declared = read_pack(_text(folder, "suite.yaml"))
    except ManifestError as wrong:
        raise _refused(wrong) from None
    return _pack(folder, declared, _below(folder))


def send_bundle(
    client: Client, folder: Path, before: Callable[[dict[str, Any]], None] = lambda _manifest: None
) -> dict[str, Any]:
    """Send what the farm lacks and record the bundle; its answer: hash, name, bytes, new.

    `before` gets the manifest before anything is sent, and may raise.
    """
    bundle = read_bundle_folder(folder)
    before(bundle.manifest)
    return _send(client, "/api/bundles", bundle)


def send_pack(client: Client, folder: Path) -> dict[str, Any]:
    """The same for a suite pack."""
    return _send(client, "/api/packs", read_pack_folder(folder))


def _send(client: Client, address: str, packed: Packed) -> dict[str, Any]:
    body = {"manifest": packed.manifest}
    try:
        return cast("dict[str, Any]", client.post(address, body))
    except HttpError as answer:
        if answer.error.get("code") != "missing-blobs":
            raise
        missing = [str(entry) for entry in answer.error["detail"]["missing"]]
    sizes = {entry["sha256"]: entry["size"] for entry in packed.manifest["content"].values()}
    total = sum(sizes[sha256] for sha256 in missing)
    note(f"Sending {count(len(missing), 'file')}, {size(total)} …")
    with _bar(total) as told:
        for sha256 in missing:
            with packed.paths[sha256].open("rb") as file:
                source = cast("IO[bytes]", _Counted(file, told))
                client.put(f"/api/blobs/{sha256}", source, sizes[sha256])
    return cast("dict[str, Any]", client.post(address, body))


class _Counted:
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], told: Told) -> None:
        self._file, self._told = file, told

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(BLOCK if count < BLOCK else count)
        self._told(len(data))
        return data


@contextmanager
def _bar(total: int) -> Iterator[Told]:
    """A progress bar on standard error, at a terminal and for what takes a while."""
    if not sys.stderr.isatty() or total < 20_000_000:
        yield lambda _count: None
        return
    from rich.progress import Progress

    from farm.cli.output import console

    with Progress(console=console(stderr=True)) as progress:
        task = progress.add_task("sending", total=total)
        yield lambda count: progress.advance(task, count)


def _pack(folder: Path, declared: dict[str, Any], names: Iterable[str]) -> Packed:
    content: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    root = folder.resolve()
    for name in names:
        path = folder / name
        try:
            if not path.resolve().is_relative_to(root):
                raise CliError(f"{name} leads out of {folder}: a bundle holds its own files", code=ExitCode.REFUSED)
            sha256, length, mode = _facts(path)
        except OSError as error:
            words = f"{path} cannot be read: {error.strerror}"
            raise CliError(words, "every file that the manifest names must be there", ExitCode.REFUSED) from None
        content[name] = {"sha256": sha256, "size": length, "mode": normal_mode(mode)}
        paths[sha256] = path
    if not content:
        raise CliError(f"{folder} holds no files to send", code=ExitCode.REFUSED)
    return Packed({**declared, "content": content}, paths)


def _facts(path: Path) -> tuple[str, int, int]:
    """(sha256, size, mode) of a regular file."""
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is no regular file")
        while block := file.read(BLOCK):
            digest.update(block)
            length += len(block)
    return digest.hexdigest(), length, mode


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def _below(folder: Path) -> list[str]:
    found: list[str] = []
    for root, folders, files in os.walk(folder):
        folders[:] = filter(takes_folder, folders)
        for name in files:
            path = Path(root, name)
            if takes_file(name) and stat.S_ISREG(path.lstat().st_mode):
                found.append(path.relative_to(folder).as_posix())
    return sorted(found)


def _text(folder: Path, name: str) -> str:
    path = folder / name
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT).decode()
    except FileNotFoundError:
        raise CliError(f"{folder} has no {name}", f"a folder with {name} is expected", ExitCode.REFUSED) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read: {error}", code=ExitCode.REFUSED) from None


def _refused(wrong: ManifestError) -> CliError:
    more = [error.words(wrong.file) for error in wrong.errors[1:6]]
    return CliError(str(wrong), "\n      ".join(more), ExitCode.REFUSED)
