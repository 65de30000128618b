"""A database of the first schema with runs in flight: it migrates with its rows, and the farm finishes the runs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select

from farm.store import backup, leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url
from farm.store.migrations import VERSION_TABLE
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from tests.hosts.lab import PACK, Lab
from tests.hosts.old_schema import make_old
from tests.postgres import PostgresServer, new_database
from tests.work.factories import add_bundle_and_pack, add_device, start_run
from tests.work.real_farm import RealFarm

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]


@pytest.fixture(params=["sqlite", "postgresql"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database beside the one of `database_url`'s kind."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "old.sqlite")
        return
    with new_database(request.getfixturevalue("postgres_server")) as url:
        yield url


def test_rows_of_runs_in_flight_survive_the_migration(
    old_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    today = sqlite_url(tmp_path / "new.sqlite") if old_url.startswith("sqlite") else postgres_server.create()
    new = Database(today)
    new.migrate()
    for n in range(3):
        add_device(new, f"d{n}")
    store = ArtifactStore(tmp_path / "artifacts")
    add_bundle_and_pack(new, store, tmp_path / "src")
    start_run(new)
    Planner(new, WorkSettings(), lambda _session, _attempt: None).once()
    start_run(new)  # this one waits
    make_old(new, old_url)
    old = Database(old_url)
    assert "reservations" not in inspect(old.engine).get_table_names()
    assert not old.is_current()
    old.migrate()
    assert old.is_current()
    with old.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "version_table": VERSION_TABLE})
        ours = [d for d in compare_metadata(context, tables.Base.metadata) if "workflow" not in str(d)]
    assert ours == []
    with old.read() as migrated, new.read() as before:
        assert backup.problems(migrated, store) == []
        for table in (tables.Run, tables.Job, tables.Attempt, tables.Lease, tables.Device):
            rows = list(migrated.scalars(select(table)))
            assert len(rows) == len(list(before.scalars(select(table)))) > 0
        assert len(leases.open_leases(migrated)) == 3
    Planner(old, WorkSettings(), lambda _session, _attempt: None).once()  # and the planner goes on with them
    with old.read() as session:
        assert {job.state for job in session.scalars(select(tables.Job))} == {"running", "queued"}
    old.close()
    new.close()


@pytest.mark.slow
def test_a_farm_of_one_machine_is_upgraded_in_the_middle_of_a_run_and_finishes_it(bundle_folder: Path) -> None:
    farm = RealFarm()
    try:
        farm.add_bundle(bundle_folder)
        farm.add_pack(PACK)
        farm.add_device("rk3568", "V1")
        farm.start()
        farm.ready(1)
        run = farm.submit(suites=("steady",), params={"step_s": 4})
        farm.underway(run)
        farm.kill_process()
        old = farm.state / "old.sqlite"
        make_old(farm.db, sqlite_url(old))
        farm.db.close()
        for path in farm.state.glob("farm.sqlite*"):
            path.unlink()
        shutil.move(old, farm.state / "farm.sqlite")
        farm.db = Database(sqlite_url(farm.state / "farm.sqlite"))
        farm.db.migrate()
        farm.start()
        assert farm.ended(run) == "passed", farm.story(run)
        assert farm.passed(run) == Counter(STEPS)
    finally:
        farm.close()


@pytest.mark.slow
def test_a_farm_of_several_processes_is_upgraded_in_the_middle_of_a_run_and_finishes_it(
    postgres_server: PostgresServer, bundle_folder: Path
) -> None:
    with Lab(postgres_server, hosts=1, bundle=bundle_folder) as lab:
        run = lab.submit(params={"step_s": 4})
        lab.underway(run)
        for name in ("h1", "s1"):
            lab.kill(name)
        old = postgres_server.create()
        make_old(lab.db, old)
        lab.db.close()
        postgres_server.drop(lab.database)
        lab.database, lab.db = old, Database(old)
        lab.start("s1")  # it migrates; the agent waits until it has
        lab.start("h1")
        assert lab.ended(run) == "passed", lab.story(run)
        assert lab.passed(run) == Counter(STEPS)
        assert lab.overlapping() == []
