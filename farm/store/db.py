"""The database handle: transactions that commit at their end, and what is announced after them.

SQLite (one host) or PostgreSQL (many), by URL. On SQLite every write takes the write lock at its beginning (`BEGIN
IMMEDIATE`), so that no transaction fails half-way; readers see a snapshot and wait for nobody (WAL).

On PostgreSQL writers work beside each other: who reads a row to change it locks it first (`farm.store.locks`), always
in the order run, device, lease, so that no two wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.orm import Session

from farm.store import postgres, tables
from farm.store.bus import Bus, Change, changes_after, write_changes
from farm.store.feed import Feed
from farm.store.prepared import ask

#: Longest wait for SQLite's write lock, seconds.
BUSY_S = 30
_WRITE = "farm_write"
_CLOCK = select(func.clock_timestamp())


def sqlite_url(path: Path) -> str:
    """The URL of the farm's file."""
    return f"sqlite:///{path}"


class Database:
    """Sessions on the farm's database. `clock` is the time on SQLite, where this process is the only one.

    `here`: the host whose agent works in this very process, where there is no other; None: agents are elsewhere.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None) -> None:
        self.url = url
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        self.here: str | None = None
        self._writer = threading.Lock()
        self._clock = clock or (lambda: datetime.now(UTC))
        self.engine: Engine = _engine(url, self.is_sqlite)
        self._writing = self.engine.execution_options(**{_WRITE: True})
        self._feed = None if self.is_sqlite else Feed(url, self._publish)
        self.bus = Bus(self.changes, lambda: None if self._feed is None else self._feed.start())

    def now(self, session: Session | None = None) -> datetime:
        """The database's clock: the process's on SQLite, the server's on PostgreSQL (within `session`)."""
        if self.is_sqlite or session is None:
            return self._clock()
        now: datetime = ask(session, _CLOCK).scalar_one()
        return now.astimezone(UTC)

    def _alive(self) -> dict[tuple[str, str], datetime]:
        """Hosts that are heard of now because this process is theirs, for `farm.store.hosts.alive_at`."""
        return {} if self.here is None else {("alive", self.here): self._clock()}

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """On SQLite writers of this process take turns: its own lock is waited for by looking again and again."""
        if not self.is_sqlite:
            yield
            return
        if not self._writer.acquire(timeout=BUSY_S):
            raise TimeoutError(f"another thread has been writing for {BUSY_S} s")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A write transaction: commits at the end, rolls back on an error, then announces its changes."""
        with (
            self._turn(),
            Session(self._writing, expire_on_commit=False, info=self._alive()) as session,
            session.begin(),
        ):
            yield session
            fresh = write_changes(session)
        if fresh and self._feed is not None:
            self._feed.written()
        elif fresh:
            self.bus.publish(fresh)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only view: one snapshot, nothing written in it is kept."""
        with Session(self.engine, expire_on_commit=False, autoflush=False, info=self._alive()) as session:
            yield session  # closing rolls back, and leaves the rows that were read usable

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A read-only view in which every statement sees the same moment, however long it takes."""
        engine = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        with Session(engine, expire_on_commit=False, autoflush=False, info=self._alive()) as session:
            yield session

    def migrate(self) -> None:
        """Bring the schema up to date; creates it in an empty database. Safe to repeat."""
        from farm.store.migrations import upgrade  # alembic takes 0.1 s to import: only where it is needed

        if self.is_sqlite:
            raw = self.engine.raw_connection()  # the mode cannot be changed inside a transaction; the file keeps it
            raw.cursor().execute("PRAGMA journal_mode=WAL")
            raw.close()
        with self.alone("migrate"), self._writing.connect() as connection:
            upgrade(connection)

    def is_current(self) -> bool:
        """Whether the schema is the one of this version. Raises SQLAlchemyError while the database is away."""
        from farm.store.migrations import is_current

        with self.engine.connect() as connection:
            return is_current(connection)

    def up_since(self, session: Session) -> datetime | None:
        """Since when the database has taken writes of every process; None on SQLite: only this process can say."""
        if self.is_sqlite:
            return None
        since: datetime = session.execute(select(func.pg_postmaster_start_time())).scalar_one()
        return since.astimezone(UTC)

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Nobody else in the farm does the thing of this name meanwhile; on SQLite there is nobody else."""
        return nullcontext() if self.is_sqlite else postgres.alone(self.url, name)

    def newest_change(self, session: Session) -> int:
        """The id after which a subscriber that has just read everything goes on."""
        if self._feed is not None:
            self._feed.start()
            return self._feed.horizon
        return session.scalar(select(func.max(tables.Change.id))) or 0

    def newest_known(self) -> int:
        """`newest_change` for whoever has read nothing else."""
        with self.read() as session:
            return self.newest_change(session)

    def close(self) -> None:
        if self._feed is not None:
            self._feed.stop()
        self.engine.dispose()

    def _publish(self, changes: Sequence[Change]) -> None:
        self.bus.publish(changes)

    def changes(self, since_id: int) -> list[Change]:
        """A page of the changes after that id, oldest first; none that could be followed by an older one."""
        with self.read() as session:
            return changes_after(session, since_id, until=None if self._feed is None else self._feed.horizon)


def _engine(url: str, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        engine = create_engine(url, pool_size=20, max_overflow=20, connect_args=postgres.arguments())
        postgres.watch(engine)
        return engine
    engine = create_engine(url, pool_size=20, max_overflow=40, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(dbapi: Any, _record: object) -> None:
        dbapi.isolation_level = None  # the driver must not begin transactions by itself: `begin` below does
        cursor = dbapi.cursor()
        for pragma in (f"busy_timeout={BUSY_S * 1000}", "foreign_keys=ON", "synchronous=NORMAL"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(_WRITE)
        driver = connection.connection.dbapi_connection  # itself: SQLAlchemy's way to it costs as much as a lease
        assert driver is not None
        driver.cursor().execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
