"""What is wrong with the inventory files: each host reads one of its own, and its mistakes are no other host's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.store import tables
from farm.store.bus import touch

_PREFIX = "inventory:"
#: Of one file so many mistakes are kept, each with so many characters.
_MOST, _LONGEST = 20, 500
_KEY = 100  # as the column has it


def note(session: Session, host: str, path: str, errors: Sequence[str], now: datetime) -> None:
    """What was found in the file that `host` read last; none: it is in force."""
    value = {"host": host, "path": path, "errors": list(errors), "read_at": now.isoformat()}
    session.merge(tables.Setting(key=f"{_PREFIX}{host}"[:_KEY], value=value))
    touch(session, "inventory", host, at=now)


def errors(session: Session) -> tuple[str, ...]:
    """Why a host's file is not in force, the one before it is: a line per mistake, with its host if there are more."""
    setting = tables.Setting
    query = select(setting.value).where(setting.key.startswith(_PREFIX, autoescape=True)).order_by(setting.key)
    several = (session.scalar(select(func.count()).select_from(tables.Host)) or 0) > 1
    return tuple(
        (f"host {noted.get('host')}: {line}" if several else str(line))[:_LONGEST]
        for noted in session.scalars(query)
        for line in (noted.get("errors") or [])[:_MOST]
    )
