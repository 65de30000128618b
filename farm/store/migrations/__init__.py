"""The schema's history, by Alembic: `upgrade` brings a database to the newest revision."""

from __future__ import annotations

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

log = logging.getLogger(__name__)
logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of each look; we tell of what was done

#: Our own version table: the database may be shared with other tools' tables.
VERSION_TABLE = "farm_schema_version"


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without a file."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Apply every revision that is missing, in one transaction; the log says which."""
    before = revision_of(connection)
    command.upgrade(config(connection), revision)
    connection.commit()
    after = revision_of(connection)
    if after != before:
        steps = reversed(
            list(ScriptDirectory.from_config(config()).iterate_revisions(after or "base", before or "base"))
        )
        applied = ", ".join(f"{step.revision} ({step.doc})" for step in steps)
        log.info("the database's schema is brought up to date: %s", applied)


def is_current(connection: Connection) -> bool:
    """Whether the database has exactly the newest revision."""
    return revision_of(connection) == ScriptDirectory.from_config(config()).get_current_head()


def revision_of(connection: Connection) -> str | None:
    """The revision that the database has; None: it is empty."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
