from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.store.db import Database


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """An empty farm database of its own, on SQLite and on PostgreSQL."""
    database = Database(database_url)
    database.migrate()
    yield database
    database.close()
