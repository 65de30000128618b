"""A real PostgreSQL for tests: one server per session on a free port, a database of its own per test.

It is started at the first use in a folder of its own, without root (as `postgres` or `nobody` where the tests run as
root), and ended with the session. Nothing is skipped where it is missing: `tools/setup.py --with-tests` installs it.

Fixtures: `postgres_server` (session), `postgres` (an empty database, its SQLAlchemy URL), `database_url` (the test runs
twice: SQLite and PostgreSQL).
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from farm.store.db import Database, sqlite_url
from tests import leftovers
from tests.waiting import eventually

#: No fsync: the folder is thrown away. A restart or a kill -9 loses nothing that a commit has written to the kernel.
SETTINGS: dict[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum": "off",
}
USER = "farm"
PASSWORD = "farm"  # reachable from this machine alone, for as long as the tests last


class PostgresServer:
    """One server in one folder. `restart`, `kill`, `pause`, `resume` are for tests of what happens then."""

    def __init__(self, listen: str = "127.0.0.1", settings: Mapping[str, str] | None = None) -> None:
        """`listen`: "*" also takes connections from hosts in network namespaces of their own."""
        self.address, self._listen = "127.0.0.1", listen
        self.folder = leftovers.folder("fpg-")
        self._settings = {**SETTINGS, **(settings or {})}
        self._number = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._template: str | None = None
        self._account = _account()
        with socket.socket() as probe:
            probe.bind((self.address, 0))
            self.port = int(probe.getsockname()[1])
        self._init()
        self.start()

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy's URL of a database of this server."""
        return f"postgresql+psycopg://{USER}:{PASSWORD}@{self.address}:{self.port}/{database}"

    def create(self, *, migrated: bool = False) -> str:
        """The URL of a new database: empty, or with the farm's newest schema (a copy: quicker than migrating)."""
        template = self._migrated() if migrated else "template0"
        name = f"farm_{os.getpid()}_{next(self._number)}"
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def _migrated(self) -> str:
        if self._template is None:
            url = self.create()
            database = Database(url)
            database.migrate()
            database.close()
            self._template = url.rpartition("/")[2]
        return self._template

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A connection of psycopg's own, each statement a transaction."""
        return psycopg.connect(self.url(database).replace("+psycopg", ""), autocommit=True, connect_timeout=10)

    def start(self) -> None:
        """Returns once it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", str(self.folder / "data")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_account(),
            )
        eventually(self._answers, what="PostgreSQL takes connections")

    def stop(self) -> None:
        """An orderly end that waits for no client."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the server and of everything that it started."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: it answers nobody and closes no connection."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self.resume()
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _init(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._account is not None:
            for path in (self.folder, password):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        made = subprocess.run(
            [
                *(program("initdb"), "-D", str(self.folder / "data"), "-U", USER, "--pwfile", str(password)),
                *("-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            **self._as_account(),
        )
        assert made.returncode == 0, made.stderr
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = '{self._listen}'\nport = {self.port}\n")
            file.write("unix_socket_directories = ''\n")
            file.writelines(f"{key} = {value}\n" for key, value in self._settings.items())
        if self._listen != self.address:  # hosts in network namespaces of their own come from other addresses
            with (self.folder / "data" / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet scram-sha-256\n")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait(30)
            self._process = None

    def _signal(self, number: int) -> None:
        """To the server and to each process that serves a client: every one of them leads a group of its own."""
        assert self._process is not None
        pid = self._process.pid
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in [pid, *map(int, children)]:  # the server first: it starts nobody anew
                with suppress(ProcessLookupError):
                    os.kill(child, number)

    def _as_account(self) -> dict[str, Any]:
        """Arguments of subprocess: PostgreSQL refuses to run as root."""
        if self._account is None:
            return {"cwd": "/"}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": [], "cwd": "/"}


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as: ourselves, or somebody without rights where we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("root cannot run PostgreSQL, and there is neither a user postgres nor nobody")


def program(name: str) -> str:
    """A program of PostgreSQL; Debian keeps them out of the PATH, a folder per version."""

    def version(path: str) -> int:
        number = path.split("/")[-3]
        return int(number) if number.isdigit() else 0

    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=version) or [shutil.which(name) or ""]
    if not found[-1]:
        raise RuntimeError(f"PostgreSQL's {name} is missing: `make setup-tests` installs it, or names the command")
    return found[-1]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that all tests of this session share, each with a database of its own."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with new_database(postgres_server) as url:
        yield url


@contextmanager
def new_database(server: PostgresServer, *, migrated: bool = False) -> Iterator[str]:
    """A database for as long as the block lasts, empty or with the farm's schema."""
    url = server.create(migrated=migrated)
    try:
        yield url
    finally:
        server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a farm's database without rows (call `migrate`); a test with it runs on both kinds."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "farm.sqlite")
        return
    with new_database(request.getfixturevalue("postgres_server"), migrated=True) as url:
        yield url
