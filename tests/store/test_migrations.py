"""The migrated schema is the one that the tables describe."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from farm.store.db import Database, sqlite_url
from farm.store.migrations import VERSION_TABLE
from farm.store.tables import Base


def test_the_migrated_schema_is_the_one_of_the_tables(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "version_table": VERSION_TABLE})
        differences = compare_metadata(context, Base.metadata)
        lock = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'uq_leases_open_device'")).scalar()
    assert differences == []
    assert "UNIQUE" in str(lock)
    assert "ended_at IS NULL" in str(lock)
    db.close()


def test_constraints_have_the_names_that_the_tables_give_them(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "migrated.sqlite"))
    db.migrate()
    plain = create_engine(sqlite_url(tmp_path / "plain.sqlite"))
    Base.metadata.create_all(plain)
    migrated, described = inspect(db.engine), inspect(plain)
    for table in Base.metadata.tables:
        for read in ("get_unique_constraints", "get_foreign_keys", "get_indexes"):
            names = [sorted(str(c["name"]) for c in getattr(side, read)(table)) for side in (migrated, described)]
            assert names[0] == names[1], (table, read)
    db.close()
    plain.dispose()


def test_migrating_twice_changes_nothing_and_keeps_the_rows(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    with db.session() as session:
        session.execute(text("INSERT INTO settings (key, value) VALUES ('a', '{}')"))
    db.migrate()
    with db.read() as session:
        assert session.execute(text("SELECT count(*) FROM settings")).scalar() == 1
    db.close()


def test_tables_of_others_in_the_same_file_are_left_alone(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    with db.session() as session:
        session.execute(text("CREATE TABLE workflow_status (id INTEGER)"))
    db.migrate()
    assert inspect(db.engine).has_table("workflow_status")
    db.close()


def test_a_start_is_quiet_unless_a_migration_is_applied_and_then_says_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    db = Database(sqlite_url(tmp_path / "farm.sqlite"))
    db.migrate()
    assert len(caplog.messages) == 1
    assert "0001 (the first schema" in caplog.messages[0].lower()
    assert caplog.messages[0].index("0001") < caplog.messages[0].index("0002")
    caplog.clear()
    db.migrate()
    assert caplog.messages == []
    db.close()
