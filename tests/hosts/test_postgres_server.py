"""The tests' own PostgreSQL is a real one that can be restarted and killed without losing what was committed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres import PostgresServer


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    yield made
    made.close()


def test_what_was_committed_outlives_a_restart_and_a_kill(server: PostgresServer) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    server.restart()
    with server.connect() as connection:
        connection.execute("INSERT INTO kept VALUES (2)")
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        server.connect()
    server.start()
    with server.connect() as connection:
        assert connection.execute("SELECT sum(n) FROM kept").fetchone() == (3,)


def test_each_test_has_a_database_of_its_own(postgres: str, postgres_server: PostgresServer) -> None:
    with postgres_server.connect(postgres.rpartition("/")[2]) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
