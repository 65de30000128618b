"""A backup that was taken while the farm worked restores to a farm that agrees with itself, on either database."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    String,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.types import TypeEngine

from farm.domain.outcomes import Outcome
from farm.store import backup, leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url
from farm.store.locks import hold_attempt
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.postgres import PostgresServer, new_database
from tests.waiting import eventually
from tests.work.factories import add_bundle_and_pack, add_device, see_again, start_run


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty farm to restore into."""
    if request.param == "sqlite":
        made = Database(sqlite_url(tmp_path / "other.sqlite"))
        made.migrate()
        yield made
        made.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with new_database(server, migrated=True) as url:
        made = Database(url)
        yield made
        made.close()


class Load:
    """A farm at work, without devices: runs are submitted, granted, given artifacts and ended, as fast as it goes."""

    def __init__(self, db: Database, store: ArtifactStore) -> None:
        self._db, self._store = db, store
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self.ended = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert self._errors == []

    def _run(self) -> None:
        try:
            planner = Planner(self._db, WorkSettings(), lambda _session, _attempt: None)
            while not self._stop.is_set():
                start_run(self._db)
                see_again(self._db)
                planner.once()
                with self._db.read() as session:
                    under_way = select(tables.Attempt.id).where(tables.Attempt.phase != "done")
                    found = list(session.scalars(under_way.order_by(tables.Attempt.id)))
                for attempt_id in found[:-1]:  # one is always under way
                    self._end(attempt_id)
        except BaseException as error:
            self._errors.append(error)

    def _end(self, attempt_id: int) -> None:
        sha256, size = self._store.put(io.BytesIO(f"log of {attempt_id}".encode()))
        with self._db.session() as session:
            now = self._db.now(session)
            attempt = hold_attempt(session, attempt_id)
            session.add(
                tables.Artifact(
                    attempt_id=attempt_id, name="log", media_type="text/plain", bytes=size, sha256=sha256, at=now
                )
            )
            set_outcome(attempt, Outcome.PASSED, "said so")
            close(session, attempt, now)
            lease = leases.of_attempt(session, attempt_id, attempt.token)
            assert lease is not None
            leases.end(session, lease.id, now, "clean")
        self.ended += 1


@pytest.fixture
def saved(db: Database, store: ArtifactStore, tmp_path: Path) -> Path:
    """A backup taken from a farm that is busy."""
    for n in range(3):
        add_device(db, f"d{n}")
    add_bundle_and_pack(db, store, tmp_path / "src")
    with Load(db, store) as load:
        eventually(lambda: load.ended > 3, what="the farm is at work")
        backup.save(db, store, tmp_path / "farm.backup", files=True)
        before = load.ended
        eventually(lambda: load.ended > before, what="it goes on")
    return tmp_path / "farm.backup"


def a_value(column: Column[Any]) -> Any:
    """One of the column's type that JSON could get wrong."""
    if isinstance(column.type, tables.UtcDateTime):
        return datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    kinds: list[tuple[type[TypeEngine[Any]], Any]] = [
        (LargeBinary, bytes(range(256))), (Boolean, True), (Double, 0.1), (BigInteger, 2**53 + 1), (Integer, 1),
        (JSON, {"ü": [1, None, 0.5, "\u2028"]}), (String, "one\n\t\"ü"),
    ]  # fmt: skip
    return next(value for kind, value in kinds if isinstance(column.type, kind))


def test_a_row_of_every_table_with_every_column_is_restored_as_it_was(
    db: Database, other: Database, store: ArtifactStore, tmp_path: Path
) -> None:
    every = [table for table in tables.Base.metadata.sorted_tables if table.name != "changes"]  # a restore adds some
    rows = {table: {column.name: a_value(column) for column in table.columns} for table in every}
    rows[tables.Base.metadata.tables["bundles"]]["manifest"] = {"content": {}}
    rows[tables.Base.metadata.tables["suite_packs"]]["manifest"] = {"content": {}}
    rows[tables.Base.metadata.tables["attempts"]]["phase"] = "done"  # what is under way must agree with its job
    rows[tables.Base.metadata.tables["artifacts"]] |= {"sha256": store.put(io.BytesIO(b"x"))[0], "bytes": 1}
    with db.session() as session:
        for table, row in rows.items():
            session.execute(delete(table))
            session.execute(insert(table), [row])
    backup.save(db, store, tmp_path / "farm.backup")
    backup.restore(other, store, tmp_path / "farm.backup")
    with other.read() as session:
        for table, row in rows.items():
            found = session.execute(select(table)).mappings().one()
            leapt = {"last_token"} if table.name == "devices" else set()
            assert {k: v for k, v in found.items() if k not in leapt} == {
                k: v for k, v in row.items() if k not in leapt
            }


def test_a_backup_under_load_restores_to_a_farm_that_agrees_with_itself(
    db: Database, saved: Path, other: Database, tmp_path: Path
) -> None:
    elsewhere = ArtifactStore(tmp_path / "elsewhere")
    head = backup.restore(other, elsewhere, saved)
    with other.read() as session:
        assert backup.problems(session, elsewhere) == []
        for name in ("runs", "jobs", "attempts", "leases", "artifacts"):
            table = tables.Base.metadata.tables[name]
            assert session.scalar(select(func.count()).select_from(table)) == head["tables"][name] > 0
        assert session.scalar(select(tables.Attempt.id).where(tables.Attempt.phase != "done")) is not None
    with db.read() as old, other.read() as new:  # and what it says is what was so
        for row in new.scalars(select(tables.Lease)):
            was = old.get_one(tables.Lease, row.id)
            assert (row.device_id, row.token, row.granted_at) == (was.device_id, was.token, was.granted_at)


def test_a_restored_farm_goes_on_and_gives_no_number_away_twice(saved: Path, other: Database, tmp_path: Path) -> None:
    elsewhere = ArtifactStore(tmp_path / "elsewhere")
    backup.restore(other, elsewhere, saved)
    with other.read() as session:
        tokens = {row.token for row in session.scalars(select(tables.Lease))}
        newest = session.scalar(select(func.max(tables.Change.id))) or 0
    with Load(other, elsewhere) as load:
        eventually(lambda: load.ended > 2, what="runs go on after the restore")
    with other.read() as session:
        again = session.scalars(select(tables.Lease).order_by(tables.Lease.id.desc())).first()
        assert again is not None
        assert again.token > max(tokens) + backup.LEAP // 2
        assert (session.scalar(select(func.max(tables.Change.id))) or 0) > newest
        assert backup.problems(session, elsewhere) == []


def test_a_restore_into_a_farm_with_runs_is_refused_and_changes_nothing(
    db: Database, store: ArtifactStore, saved: Path
) -> None:
    with db.read() as session:
        before = session.scalar(select(func.count()).select_from(tables.Run))
    with pytest.raises(backup.BackupError, match="not empty"):
        backup.restore(db, store, saved)
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Run)) == before


def test_a_file_that_is_no_backup_or_lacks_artifacts_is_refused_and_nothing_is_kept(
    db: Database, store: ArtifactStore, saved: Path, other: Database, tmp_path: Path
) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    (tmp_path / "text").write_text("hello")
    for path in (torn, tmp_path / "text"):
        with pytest.raises(backup.BackupError, match="damaged"):
            backup.restore(other, ArtifactStore(tmp_path / "elsewhere"), path)
    backup.save(db, store, tmp_path / "list")  # without the files
    with pytest.raises(backup.BackupError, match="not in the store"):
        backup.restore(other, ArtifactStore(tmp_path / "empty"), tmp_path / "list")
    with other.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Run)) == 0
    backup.restore(other, store, tmp_path / "list")  # beside its own store it is whole
