"""A pool of connections to PostgreSQL: one that died while it was idle is never handed out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from sqlalchemy import Engine, text

from farm.store import postgres
from farm.store.db import Database
from tests.postgres import PostgresServer
from tests.waiting import eventually


@pytest.fixture
def db(postgres_server: PostgresServer) -> Iterator[Database]:
    database = Database(postgres_server.create())
    yield database
    database.close()


def pids(db: Database, count: int) -> set[int]:
    """The server's processes behind so many connections at a time."""
    with ExitStack() as open_at_once:
        sessions = [open_at_once.enter_context(db.read()) for _ in range(count)]
        return {session.execute(text("SELECT pg_backend_pid()")).scalar_one() for session in sessions}


def end(db: Database, which: set[int]) -> None:
    with postgres.connect(db.url) as other:
        for pid in which:
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))

        def gone() -> bool:
            query = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
            return other.execute(query, (list(which),)).fetchone() == (0,)

        eventually(gone, what="the connections' processes end")


def asked(engine: Engine) -> list[str]:
    """What the pool asks connections before it hands them out."""
    found: list[str] = []
    plain = engine.dialect.do_ping

    def ping(dbapi: psycopg.Connection[object]) -> bool:
        found.append("ping")
        return bool(plain(dbapi))  # type: ignore[arg-type]

    engine.dialect.do_ping = ping  # type: ignore[method-assign, assignment]
    return found


def test_a_connection_that_the_server_has_closed_is_replaced(db: Database) -> None:
    before = pids(db, 3)
    end(db, before)
    after = pids(db, 3)
    assert len(after) == 3
    assert not before & after


def test_a_connection_used_a_moment_ago_is_not_asked_and_an_idle_one_is(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(db.engine)
    first = pids(db, 1)
    assert pids(db, 1) == first
    assert found == []
    monkeypatch.setattr(postgres, "ASK_AFTER_S", 0.0)
    assert pids(db, 1) == first
    assert found == ["ping"]
