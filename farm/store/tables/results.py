"""What an attempt's journal says, as rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class JournalMark(Base):
    """Which journal records have been applied: the primary key makes shipping twice harmless."""

    __tablename__ = "journal_marks"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    late: Mapped[bool] = mapped_column(default=False)  # came under a stale token: kept, not applied


class Test(Base):
    """One test of one attempt, from its first sign to its end."""

    __test__ = False
    __tablename__ = "tests"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    test_id: Mapped[str] = mapped_column(String(500), primary_key=True)
    ordinal: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[str | None] = mapped_column(String(20))  # None: waiting or running
    cause: Mapped[str | None] = mapped_column(String(20))
    began_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    duration_s: Mapped[float | None]
    message: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)


class Measurement(Base):
    """A list of values with unit and direction, bound to test, attempt, device, fingerprint and temperature band."""

    __tablename__ = "measurements"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    seq: Mapped[int]
    test_id: Mapped[str] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    fingerprint_id: Mapped[int | None]
    temperature_band: Mapped[str] = mapped_column(String(20))
    name: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    better: Mapped[str] = mapped_column(String(10))
    values: Mapped[list[Any]]
    marks: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    at: Mapped[datetime]
    __table_args__ = (
        UniqueConstraint("attempt_id", "seq"),
        Index("ix_measurements_device_id_name_at", "device_id", "name", "at"),
    )


class SeriesChunk(Base):
    """A piece of a time series, compressed: see `farm.store.series`."""

    __tablename__ = "series_chunks"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    name: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime]
    count: Mapped[int]
    data: Mapped[bytes] = mapped_column(LargeBinary)
    __table_args__ = (Index("ix_series_chunks_ended_at", "ended_at"),)


class SeriesAbsence(Base):
    """A series that a device could not give during an attempt, and why; and how it was sampled (`name` "sampler")."""

    __tablename__ = "series_absences"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    reason: Mapped[str] = mapped_column(String(300))


class Stage(Base):
    """An engine stage (load.open, prefill, …) as the engine reported it, for the breakdown per device."""

    __tablename__ = "stages"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    test_id: Mapped[str | None] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    name: Mapped[str] = mapped_column(String(100))
    began_at: Mapped[datetime]
    duration_s: Mapped[float]
    counters: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Incident(Base):
    """Something that went wrong on a device, with its evidence (bounded lines; the whole is an artifact)."""

    __tablename__ = "incidents"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    seq: Mapped[int | None]
    test_id: Mapped[str | None] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"), index=True)
    at: Mapped[datetime]
    klass: Mapped[str] = mapped_column(String(60))
    summary: Mapped[str] = mapped_column(Text)
    evidence: Mapped[str | None] = mapped_column(Text)
    artifact: Mapped[str | None] = mapped_column(String(300))
    count: Mapped[int] = mapped_column(default=1, server_default="1")  # so many alike, which this row stands for
    signature: Mapped[str | None] = mapped_column(String(16))  # None: from before there were any, until upkeep comes by
    __table_args__ = (
        UniqueConstraint("attempt_id", "seq"),
        Index("ix_incidents_signature_at", "signature", "at"),
    )
