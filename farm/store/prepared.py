"""Statements that are made once and run often.

Making a statement and asking the ORM to run it costs five times what the database takes for it. What every lease and
every change does is therefore written as constants of its module and handed to the connection itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CursorResult, Executable
from sqlalchemy.orm import Session


def run(session: Session, statement: Executable, parameters: Mapping[str, Any]) -> CursorResult[*tuple[Any, ...]]:
    """Run a prepared statement in the session's transaction, after what the session has not written yet."""
    session.flush()
    return session.connection().execute(statement, parameters)
