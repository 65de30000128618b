"""Bundles and suite packs, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True)
class BundleRow:
    """An engine build. `abis` are those that it has files for, `models` its model names."""

    hash: str
    name: str
    version: str
    git_sha: str | None
    adapter: str
    abis: tuple[str, ...]
    models: tuple[str, ...]
    bytes: int
    created_at: datetime
    created_by: str | None


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """A suite as its pack's manifest declares it."""

    name: str
    needs: str
    max_temperature_c: float | None
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class PackRow:
    hash: str
    name: str
    bytes: int
    created_at: datetime
    created_by: str | None
    suites: tuple[SuiteRow, ...]


@dataclass(frozen=True, slots=True)
class BundleDetail:
    row: BundleRow
    manifest: dict[str, Any]


def bundles(session: Session, limit: int = 100) -> list[BundleRow]:
    """Bundles, newest first."""
    raise NotImplementedError


def bundle(session: Session, hash_or_name: str) -> BundleDetail | None:
    """By full hash, unambiguous hash prefix (≥ 8 digits) or name (its newest); None when there is none."""
    raise NotImplementedError


def packs(session: Session, limit: int = 100) -> list[PackRow]:
    """Suite packs, newest first."""
    raise NotImplementedError


def pack(session: Session, hash_or_name: str) -> PackRow | None:
    """By full hash, unambiguous hash prefix (≥ 8 digits) or name (its newest); None when there is none."""
    raise NotImplementedError
