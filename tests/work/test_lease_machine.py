"""A farm keeps its promises whatever happens to it: `LeaseMachine` (its random lives) on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from farm.store.db import sqlite_url
from tests.postgres import PostgresServer, new_database
from tests.work.lease_machine import LeaseMachine


def run(machine: type[LeaseMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        ),
    )


def on_sqlite() -> type[LeaseMachine]:
    class OnSqlite(LeaseMachine):
        new_url = staticmethod(lambda folder: sqlite_url(folder / "farm.sqlite"))

    return OnSqlite


def on_postgres(server: PostgresServer) -> type[LeaseMachine]:
    class OnPostgres(LeaseMachine):
        def __init__(self) -> None:
            self._database = new_database(server, migrated=True)
            type(self).new_url = staticmethod(lambda _folder: self._database.__enter__())
            super().__init__()

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                self._database.__exit__(None, None, None)

    return OnPostgres


def test_a_farm_on_sqlite_keeps_its_promises_whatever_happens() -> None:
    run(on_sqlite(), 6, 30)


def test_a_farm_on_postgresql_keeps_its_promises_whatever_happens(postgres_server: PostgresServer) -> None:
    run(on_postgres(postgres_server), 3, 25)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_farms_keep_their_promises_over_long_lives(kind: str, postgres_server: PostgresServer) -> None:
    run(on_sqlite() if kind == "sqlite" else on_postgres(postgres_server), 25, 50)
