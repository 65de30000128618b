"""The servers that are up, as agents find them: each writes down its address every few seconds."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from farm.store import tables

_PREFIX = "server:"
#: A server writes itself down this often, seconds…
EVERY_S = 3.0
#: …and is not tried any more when it has not for so long.
GONE_AFTER = timedelta(seconds=12)


def announce(session: Session, server_id: str, url: str, now: datetime) -> None:
    """This server is up and is reached at `url`. Forgets servers that have been gone for a day."""
    session.merge(tables.Setting(key=_PREFIX + server_id, value={"url": url, "at": now.isoformat()}))
    for row in session.scalars(select(tables.Setting).where(tables.Setting.key.startswith(_PREFIX))):
        if now - datetime.fromisoformat(row.value["at"]) > timedelta(days=1):
            session.delete(row)


def forget(session: Session, server_id: str) -> None:
    """This server is going."""
    session.execute(delete(tables.Setting).where(tables.Setting.key == _PREFIX + server_id))


def urls(session: Session, now: datetime) -> list[str]:
    """Servers that are up, the one heard of last first."""
    rows = session.scalars(select(tables.Setting).where(tables.Setting.key.startswith(_PREFIX)))
    known = [(datetime.fromisoformat(row.value["at"]), str(row.value["url"])) for row in rows]
    return [url for at, url in sorted(known, reverse=True) if now - at <= GONE_AFTER]
