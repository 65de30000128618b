"""The schema's history, by Alembic: `upgrade` brings a database to the newest revision."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

#: Our own version table: the database may be shared with other tools' tables.
VERSION_TABLE = "farm_schema_version"


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without a file."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def upgrade(connection: Connection) -> None:
    """Apply every revision that is missing, in one transaction."""
    command.upgrade(config(connection), "head")
    connection.commit()
