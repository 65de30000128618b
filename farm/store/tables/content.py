"""What is addressed by hash: bundles, suite packs, collected files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class Bundle(Base):
    """An engine build with models, addressed by the hash of its manifest (which holds the hash of every file)."""

    __tablename__ = "bundles"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), index=True)
    version: Mapped[str] = mapped_column(String(100))
    git_sha: Mapped[str | None] = mapped_column(String(64))
    adapter: Mapped[str] = mapped_column(String(40))
    manifest: Mapped[dict[str, Any]]
    bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(100))


class SuitePack(Base):
    """A folder of pytest files with a manifest, addressed like a bundle."""

    __tablename__ = "suite_packs"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), index=True)
    manifest: Mapped[dict[str, Any]]
    bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(100))


class Artifact(Base):
    """A collected file in the content-addressed store."""

    __tablename__ = "artifacts"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    test_id: Mapped[str | None] = mapped_column(String(500))
    name: Mapped[str] = mapped_column(String(300))
    media_type: Mapped[str] = mapped_column(String(100))
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    at: Mapped[datetime]
    __table_args__ = (UniqueConstraint("attempt_id", "name"),)
