"""Small facts about this farm, and what changed in it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class Setting(Base):
    """Small facts about this farm: its secret's id, server start time, inventory hash."""

    __tablename__ = "settings"
    key: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[dict[str, Any]]


class Change(Base):
    """What changed, in order: the source of live pages. `topic` is a noun, `ref` its id; pruned after a day."""

    __tablename__ = "changes"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    topic: Mapped[str] = mapped_column(String(40))  # host, device, run, job, attempt, test, measurement, log
    ref: Mapped[str] = mapped_column(String(100))
    run_id: Mapped[int | None]
    device_id: Mapped[int | None]
