"""Incidents that are one fault: signatures, and the clusters that they lie in."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class Cluster(Base):
    """Signatures that are one fault. People name it and mute it; how often it was seen is counted when read."""

    __tablename__ = "clusters"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None] = mapped_column(String(200))
    named_by: Mapped[str | None] = mapped_column(String(100))
    muted_at: Mapped[datetime | None]
    muted_by: Mapped[str | None] = mapped_column(String(100))
    mute_reason: Mapped[str | None] = mapped_column(String(300))
    created_at: Mapped[datetime]


class Signature(Base):
    """What an incident is, whenever and wherever it happens (farm.evidence.signature). `text` is what is compared."""

    __tablename__ = "signatures"
    key: Mapped[str] = mapped_column(String(16), primary_key=True)
    cluster_id: Mapped[int] = mapped_column(ForeignKey("clusters.id"), index=True)
    klass: Mapped[str] = mapped_column(String(80))
    basis: Mapped[str] = mapped_column(String(20))  # stack, message, class
    title: Mapped[str] = mapped_column(String(300))
    text: Mapped[str] = mapped_column(Text)
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
