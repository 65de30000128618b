"""Rows that nobody reads in the transaction that writes them: history, lines of the audit log, changes.

They wait in the session and are written last thing before the commit: together, so that on PostgreSQL a transaction
makes one journey for all of them, and late, so that the changes' ids (`farm.store.feed`) have short gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.orm import Session

from farm.store.prepared import Rows, run, run_together

#: Where a session keeps what waits.
_WAITING = "farm_appended"
#: So many are written together; what is more goes by itself, so that the shapes of statements are few.
MOST = 4


def append(session: Session, statement: Executable, values: Mapping[str, Any]) -> None:
    """Have a row written (`statement`, a constant INSERT) at the end of this transaction."""
    session.info.setdefault(_WAITING, []).append((statement, values))


def write(session: Session, statement: Executable | None = None, values: Mapping[str, Any] | None = None) -> Rows:
    """Write what waits, and `statement` with it; what that one returns."""
    waiting: list[tuple[Executable, Mapping[str, Any]]] = session.info.pop(_WAITING, [])
    parts: list[tuple[Executable, Mapping[str, Any]]] = []
    for n, part in enumerate(waiting):
        if n < len(waiting) - MOST or any(part[0] is later[0] for later in waiting[n + 1 :]):
            run(session, *part)  # what is written together has no order: rows of one table come one after the other
        else:
            parts.append(part)
    if statement is not None:
        parts.append((statement, values or {}))
    return run_together(session, parts) if parts else Rows([])
