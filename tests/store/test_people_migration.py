"""People of a farm of the first schema keep what they could do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from farm.store import people, teams
from farm.store.db import Database, sqlite_url
from farm.store.migrations import upgrade

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
MADE = "2026-10-01 12:00:00.000000"
#: user -> (team, scopes of a token of theirs). The first schema made everybody a member and asked the token alone.
PEOPLE = {
    "admin": ("default", '["admin"]'),
    "ops": ("default", '["read", "submit", "operate"]'),
    "ci": ("vision", '["read", "submit"]'),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "farm.sqlite")
    return str(request.getfixturevalue("postgres"))


def test_tokens_made_before_there_were_roles_allow_what_they_allowed(empty_url: str) -> None:
    db = Database(empty_url)
    with db.engine.execution_options(farm_write=True).connect() as connection:
        upgrade(connection, "0001")
        for ident, (name, (team, scopes)) in enumerate(PEOPLE.items(), 1):
            connection.execute(
                text("INSERT INTO users (id, name, team, role, created_at) VALUES (:id, :name, :team, 'member', :at)"),
                {"id": ident, "name": name, "team": team, "at": MADE},
            )
            connection.execute(
                text(
                    "INSERT INTO tokens (id, name, user_id, sha256, scopes, kind, created_at)"
                    " VALUES (:id, 'old', :id, :sha, :scopes, 'token', :at)"
                ),
                {"id": ident, "sha": people.digest(f"farm_{name}"), "scopes": scopes, "at": MADE},
            )
        connection.commit()
    db.migrate()
    with db.read() as session:
        found = {name: people.identify(session, f"farm_{name}", NOW) for name in PEOPLE}
        known = [team.name for team in teams.teams(session)]
    db.close()
    assert {name: who and (who.role, who.team, sorted(who.scopes)) for name, who in found.items()} == {
        "admin": ("admin", "default", ["admin"]),
        "ops": ("operator", "default", ["operate", "read", "submit"]),
        "ci": ("member", "vision", ["read", "submit"]),
    }
    assert known == ["default", "vision"]
