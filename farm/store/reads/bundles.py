"""Bundles and suite packs, newest first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.store import tables

Addressed = TypeVar("Addressed", tables.Bundle, tables.SuitePack)


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
    b = tables.Bundle
    return [_bundle(row) for row in session.scalars(select(b).order_by(b.created_at.desc(), b.hash).limit(limit))]


def bundle(session: Session, hash_or_name: str) -> BundleDetail | None:
    """By full hash, unambiguous hash prefix (≥ 8 digits) or name (its newest); None when there is none."""
    row = _find(session, tables.Bundle, hash_or_name)
    return BundleDetail(_bundle(row), row.manifest) if row else None


def packs(session: Session, limit: int = 100) -> list[PackRow]:
    """Suite packs, newest first."""
    p = tables.SuitePack
    return [_pack(row) for row in session.scalars(select(p).order_by(p.created_at.desc(), p.hash).limit(limit))]


def pack(session: Session, hash_or_name: str) -> PackRow | None:
    """By full hash, unambiguous hash prefix (≥ 8 digits) or name (its newest); None when there is none."""
    row = _find(session, tables.SuitePack, hash_or_name)
    return _pack(row) if row else None


def _find(session: Session, table: type[Addressed], ref: str) -> Addressed | None:
    named = session.scalars(select(table).where(table.name == ref).order_by(table.created_at.desc()).limit(1)).first()
    if named is not None:
        return named
    if not re.fullmatch(r"[0-9a-f]{8,64}", ref):
        return None
    found = list(session.scalars(select(table).where(table.hash.startswith(ref)).limit(2)))
    return found[0] if len(found) == 1 else None


def _bundle(row: tables.Bundle) -> BundleRow:
    manifest = row.manifest or {}
    return BundleRow(
        hash=row.hash,
        name=row.name,
        version=row.version,
        git_sha=row.git_sha,
        adapter=row.adapter,
        abis=_names(manifest.get("files")),
        models=_names(manifest.get("models")),
        bytes=row.bytes,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def _pack(row: tables.SuitePack) -> PackRow:
    declared = (row.manifest or {}).get("suites")
    suites = [_suite(str(n), s) for n, s in declared.items()] if isinstance(declared, dict) else []
    return PackRow(row.hash, row.name, row.bytes, row.created_at, row.created_by, tuple(suites))


def _suite(name: str, declared: object) -> SuiteRow:
    body = declared if isinstance(declared, dict) else {}
    return SuiteRow(
        name=name,
        needs=str(body.get("needs") or ""),
        max_temperature_c=_number(body.get("settle"), "max_temperature_c"),
        limit_s=_number(body.get("limits"), "suite_s"),
    )


def _number(of: object, key: str) -> float | None:
    value = of.get(key) if isinstance(of, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _names(of: object) -> tuple[str, ...]:
    return tuple(sorted(str(name) for name in of)) if isinstance(of, dict) else ()
