"""Bundles and suite packs in the store: a manifest row, and every file in the artifact store by its hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from farm.store.artifacts import ArtifactStore


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
        super().__init__(f"{len(hashes)} files of the manifest are not in the store yet")


def import_bundle(session: Session, store: ArtifactStore, folder: Path, now: datetime, by: str | None) -> Imported:
    """Check a folder with bundle.yaml, put its files into the store and record it. Raises ManifestError."""
    raise NotImplementedError


def import_pack(session: Session, store: ArtifactStore, folder: Path, now: datetime, by: str | None) -> Imported:
    """The same for a folder with suite.yaml."""
    raise NotImplementedError


def register_bundle(
    session: Session, store: ArtifactStore, manifest: Mapping[str, Any], now: datetime, by: str | None
) -> Imported:
    """Record a bundle whose files were sent before. `manifest` is `manifest_of(folder)`. Raises MissingBlobs."""
    raise NotImplementedError


def register_pack(
    session: Session, store: ArtifactStore, manifest: Mapping[str, Any], now: datetime, by: str | None
) -> Imported:
    """The same for a suite pack."""
    raise NotImplementedError


def export(session: Session, store: ArtifactStore, hash: str, folder: Path) -> None:
    """Lay a bundle or pack out in `folder` (which must not exist), files hard-linked or copied from the store."""
    raise NotImplementedError
