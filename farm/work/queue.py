"""The queue of each host: an attempt's workflow is put there in the same transaction as its lease.

Only a client of the workflow engine: a process that queues need not run workflows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from dbos import DBOS, DBOSClient
from sqlalchemy.orm import Session

from farm.store import tables
from farm.store.db import Database

#: Grows only when the workflow's shape changes (steps, order, names), and then only after a drain.
PROTOCOL = "1"
WORKFLOW = "attempt"
#: The key in `settings` under which agents find the protocol that the servers speak.
SETTING = "workflows"


#: Puts an attempt's workflow into its host's queue, inside the session's own transaction.
Enqueue = Callable[[Session, tables.Attempt], None]


def queue_of(host: str) -> str:
    """The name of a host's queue."""
    return f"host:{host}"


def prepare(db: Database) -> None:
    """Make the workflow engine's own tables, or bring them up to date, and say which protocol is spoken."""
    if not db.is_sqlite:  # there the one process does it when it launches the engine
        with db.alone("workflow tables"):
            DBOS.migrate(db.url)
    with db.session() as session:
        session.merge(tables.Setting(key=SETTING, value={"protocol": PROTOCOL}))


class Queue:
    """Puts workflows into queues; connects to nothing of its own, since it writes in its caller's transactions."""

    def __init__(self, db: Database) -> None:
        self._url = db.url
        self._client: DBOSClient | None = None
        self._lock = threading.Lock()

    def enqueue(self, session: Session, attempt: tables.Attempt) -> None:
        """Put the attempt's workflow into its host's queue, in the session's own transaction."""
        with self._lock:
            if self._client is None:
                self._client = DBOSClient(system_database_url=self._url, lazy=True)
        self._client.enqueue_in_transaction(
            session,
            {
                "queue_name": queue_of(attempt.host),
                "workflow_name": WORKFLOW,
                "workflow_id": attempt.workflow_id,
                "app_version": PROTOCOL,
            },
            attempt.id,
        )

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._client = None
