"""Bundles and suite packs in the store: a manifest row, and every file in the artifact store by its hash."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain import manifests
from farm.domain.bundles import bundle_paths, check_bundle, read_bundle
from farm.domain.executables import HEAD, misfits
from farm.domain.manifests import ManifestError
from farm.domain.packs import check_pack, read_pack, suites_without_files, takes_file, takes_folder
from farm.domain.yaml_lines import FileError
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.bus import touch

MAX_MANIFEST_TEXT = 1 << 20


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did. `hash` addresses the bundle or pack; `new` is False when it was there already."""

    hash: str
    name: str
    bytes: int
    new: bool


class MissingBlobs(Exception):
    """The manifest names files that the store does not hold yet; send these and try again."""

    def __init__(self, hashes: list[str]) -> None:
        self.hashes = hashes
        super().__init__(f"files of the manifest that are not in the store yet: {len(hashes)}")


def import_bundle(session: Session, store: ArtifactStore, folder: Path, now: datetime, by: str | None) -> Imported:
    """Check a folder with bundle.yaml, put its files into the store and record it. Raises ManifestError."""
    declared = read_bundle(_text(folder, "bundle.yaml"))
    manifest = {**declared, "content": _store(store, folder, sorted(bundle_paths(declared)), "bundle.yaml")}
    return register_bundle(session, store, manifest, now, by)


def import_pack(session: Session, store: ArtifactStore, folder: Path, now: datetime, by: str | None) -> Imported:
    """The same for a folder with suite.yaml; every file below it belongs to the pack."""
    declared = read_pack(_text(folder, "suite.yaml"))
    manifest = {**declared, "content": _store(store, folder, pack_files(folder), "suite.yaml")}
    return register_pack(session, store, manifest, now, by)


def register_bundle(
    session: Session, store: ArtifactStore, manifest: Mapping[str, Any], now: datetime, by: str | None
) -> Imported:
    """Record a bundle whose files were stored before. Raises ManifestError, MissingBlobs."""
    checked = _complete(store, check_bundle(manifest))
    _refuse("bundle manifest", misfits(checked, lambda path: _head(store, checked["content"][path]["sha256"])))

    def row(hash: str) -> tables.Bundle:
        return tables.Bundle(
            hash=hash,
            name=checked["name"],
            version=checked["version"],
            git_sha=checked["git_sha"],
            adapter=checked["adapter"],
            manifest=checked,
            bytes=manifests.content_bytes(checked),
            created_at=now,
            created_by=by,
        )

    return _record(session, tables.Bundle, checked, row, "bundle", now)


def register_pack(
    session: Session, store: ArtifactStore, manifest: Mapping[str, Any], now: datetime, by: str | None
) -> Imported:
    """The same for a suite pack."""
    checked = _complete(store, check_pack(manifest))
    _refuse("suite.yaml", suites_without_files(checked))

    def row(hash: str) -> tables.SuitePack:
        return tables.SuitePack(
            hash=hash,
            name=checked["name"],
            manifest=checked,
            bytes=manifests.content_bytes(checked),
            created_at=now,
            created_by=by,
        )

    return _record(session, tables.SuitePack, checked, row, "pack", now)


def export(session: Session, store: ArtifactStore, hash: str, folder: Path) -> None:
    """Lay a bundle or pack out in `folder` (which must not exist). Raises KeyError, FileExistsError."""
    found = session.get(tables.Bundle, hash) or session.get(tables.SuitePack, hash)
    if found is None:
        raise KeyError(f"no bundle or pack has the hash {hash}")
    lay_out(store, found.manifest, folder)


def lay_out(store: ArtifactStore, manifest: Mapping[str, Any], folder: Path) -> None:
    """Copies of every file under its name and mode, complete or not there at all."""
    partial = folder.with_name(f".{folder.name}.part-{os.getpid()}")
    partial.mkdir(parents=True)
    for path, entry in manifest["content"].items():
        target = partial / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            for block in store.chunks(entry["sha256"]):
                out.write(block)
        target.chmod(entry["mode"])
    partial.rename(folder)


def pack_files(folder: Path) -> list[str]:
    """Every regular file of a suite pack's folder, as relative paths, sorted; links and caches are left out."""
    found: list[str] = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if takes_folder(f))
        for name in files:
            path = Path(root, name)
            if takes_file(name) and stat.S_ISREG(path.lstat().st_mode):
                found.append(path.relative_to(folder).as_posix())
    return sorted(found)


def _text(folder: Path, name: str) -> str:
    path = folder / name
    try:
        with path.open("rb") as file:
            return file.read(MAX_MANIFEST_TEXT + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(name, [FileError(0, f"cannot be read in {folder}: {error}")]) from None


def _store(store: ArtifactStore, folder: Path, paths: Iterable[str], file: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    errors: list[FileError] = []
    root = folder.resolve()
    for path in paths:
        source = folder / path
        try:
            if not source.resolve().is_relative_to(root):
                raise OSError("it leads out of the folder")
            sha256, size = store.put_file(source.resolve())
            content[path] = {"sha256": sha256, "size": size, "mode": manifests.normal_mode(source.stat().st_mode)}
        except (OSError, ValueError) as error:
            errors.append(FileError(0, f"{path!r} cannot be read: {error}"))
    if errors:
        raise ManifestError(file, errors)
    return content


def _complete(store: ArtifactStore, manifest: dict[str, Any]) -> dict[str, Any]:
    entries = manifest["content"]
    missing = store.missing([entry["sha256"] for entry in entries.values()])
    if missing:
        raise MissingBlobs(missing)
    for path, entry in entries.items():
        if store.size(entry["sha256"]) != entry["size"]:
            raise ManifestError("manifest", [FileError(0, f"{path!r} has another size than its content entry")])
    return manifest


def _head(store: ArtifactStore, sha256: str) -> bytes:
    with store.open(sha256) as file:
        return file.read(HEAD)


def _refuse(file: str, wrong: list[str]) -> None:
    if wrong:
        raise ManifestError(file, [FileError(0, words) for words in wrong])


def _record(
    session: Session,
    table: type[tables.Bundle] | type[tables.SuitePack],
    manifest: dict[str, Any],
    row: Callable[[str], tables.Bundle | tables.SuitePack],
    topic: str,
    now: datetime,
) -> Imported:
    hash = manifests.content_hash(manifest)
    made = row(hash)
    new = session.scalar(select(table.hash).where(table.hash == hash)) is None
    if new:
        session.add(made)
        touch(session, topic, hash, at=now)
    return Imported(hash, made.name, made.bytes, new)
