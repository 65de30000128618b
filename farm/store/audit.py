"""The audit log: who did what to what, append only.

A line names people, things and what changed, never a secret. It is written in the transaction of what it tells of
where that has one (`Note.write`), and otherwise before the answer leaves: nothing is answered as done that is not
noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from farm.store import appended, tables
from farm.store.people import Principal

#: Whoever comes without a name: a failed login.
NOBODY = "nobody"
#: Longest text that a line keeps of a value.
MAX_TEXT = 300
MAX_FIELDS = 20
#: Fields that never reach the log, whoever hands them over, and what a secret of this farm looks like in any text.
_SECRET_FIELD = re.compile(r"token$|secret|password|authorization|cookie|code$", re.IGNORECASE)
_INSERT = insert(tables.Audit)
_SECRET_TEXT = re.compile(r"\bfarm[sl]?_[A-Za-z0-9_-]{20,}")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of the log."""

    id: int
    at: datetime
    who: str
    token_id: int | None
    action: str
    target: str
    detail: dict[str, Any]
    address: str | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of lines, newest first; `before` asks for the next (older) one, None when there is none."""

    rows: tuple[AuditRow, ...]
    before: int | None


@dataclass(slots=True)
class Note:
    """What a request does, as its route declared it; the route fills in to what, and what changed."""

    principal: Principal | None
    action: str
    address: str | None
    target: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    done: bool = False  # written, or nothing to write: the request changed nothing

    def write(self, session: Session, now: datetime, target: str | None = None, **detail: Any) -> None:
        """Write the line in the transaction of what it tells of."""
        self.target = self.target if target is None else target
        self.detail |= detail
        record(session, self.principal, self.action, self.target, self.detail, self.address, now)
        self.done = True


def record(
    session: Session,
    principal: Principal | None,
    action: str,
    target: str,
    detail: Mapping[str, Any],
    address: str | None,
    now: datetime,
) -> None:
    """Append a line. `action` is `noun.verb`; `detail` is small, and what looks like a secret is left out of it."""
    values = {
        "at": now,
        "who": principal.name if principal else NOBODY,
        "token_id": (principal.token_id or None) if principal else None,
        "action": action[:60],
        "target": _safe(target)[:200],
        "detail": {
            str(key)[:60]: _value(value)
            for key, value in list(detail.items())[:MAX_FIELDS]
            if not _SECRET_FIELD.search(str(key))
        },
        "address": address[:100] if address else None,
    }
    appended.append(session, _INSERT, values)


def page(
    session: Session,
    *,
    before: int | None = None,
    limit: int = 100,
    who: str | None = None,
    action: str | None = None,
    target: str | None = None,
) -> AuditPage:
    """Lines, newest first. `action` is a whole action or a noun (`token`); `who` and `target` are whole words."""
    appended.write(session)  # what this transaction has noted is part of the log
    audit = tables.Audit
    limit = max(1, min(limit, 500))
    query = select(audit).order_by(audit.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(audit.id < before)
    if who:
        query = query.where(audit.who == who)
    if action:
        exact = audit.action == action
        query = query.where(exact if "." in action else audit.action.startswith(f"{action}.", autoescape=True))
    if target:
        query = query.where(audit.target == target)
    rows = [
        AuditRow(row.id, row.at, row.who, row.token_id, row.action, row.target, dict(row.detail), row.address)
        for row in session.scalars(query)
    ]
    return AuditPage(tuple(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)


def _safe(text: str) -> str:
    return _SECRET_TEXT.sub("[secret]", text)


def _value(value: Any) -> Any:
    """A value that is small, JSON, and no secret."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {
            str(key)[:60]: _value(inner)
            for key, inner in list(value.items())[:MAX_FIELDS]
            if not _SECRET_FIELD.search(str(key))
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(inner) for inner in list(value)[:MAX_FIELDS]]
    return _safe(str(value))[:MAX_TEXT]
