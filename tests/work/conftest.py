from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty farm database of its own."""
    database = Database(sqlite_url(tmp_path / "farm.sqlite"))
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")
