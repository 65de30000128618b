"""What PostgreSQL is asked for: connections that notice a dead peer, and locks that end with their holder.

A network that is cut says nothing. Both sides therefore watch the connection (TCP keep-alive, limits on unacknowledged
data), and a transaction that a stopped process left open is ended by the server, so that the rows it had locked are
free again within seconds. Advisory locks belong to a connection: whoever dies, or is cut off, loses them by itself.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import psycopg
from sqlalchemy import Engine, event, make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

#: A peer that is silent for about so long is given up, seconds.
PEER_S = 10
#: A transaction that does nothing for so long is ended by the server, seconds.
IDLE_TRANSACTION_S = 15
#: A statement waits so long for somebody's row lock, seconds.
LOCK_S = 20
CONNECT_S = 5
#: A connection that was not used for so long is asked whether it lives before it is used, seconds.
ASK_AFTER_S = 5.0
_IDLE_SINCE = "farm_idle_since"

#: First key of our advisory locks: "farm" in ASCII. The second says which.
_SPACE = 0x6661726D


def arguments() -> dict[str, object]:
    """Keyword arguments of every connection to PostgreSQL."""
    server = {
        "idle_in_transaction_session_timeout": f"{IDLE_TRANSACTION_S}s",
        "lock_timeout": f"{LOCK_S}s",
        "tcp_keepalives_idle": "4",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": str(PEER_S * 1000),
    }
    return {
        "connect_timeout": CONNECT_S,
        "keepalives_idle": 4,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": PEER_S * 1000,
        "application_name": "farm",
        "options": " ".join(f"-c {key}={value}" for key, value in server.items()),
    }


def watch(engine: Engine) -> None:
    """Have the pool look at a connection before it hands it out, as its own ping does, but without a journey each time.

    A server that has closed a connection has said so: something is there to be read. What was idle for long is asked.
    """

    @event.listens_for(engine, "checkin")
    def note(_dbapi: object, record: ConnectionPoolEntry) -> None:
        record.info[_IDLE_SINCE] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def look(dbapi: psycopg.Connection[Any], record: ConnectionPoolEntry, _fairy: object) -> None:
        since = record.info.pop(_IDLE_SINCE, None)
        if since is None:
            return  # it is new
        looked = select.poll()
        try:
            looked.register(dbapi.fileno(), select.POLLIN)
            if time.monotonic() - since < ASK_AFTER_S and not looked.poll(0):
                return
            engine.dialect.do_ping(dbapi)  # type: ignore[arg-type]  # it is the driver's own connection
        except psycopg.Error as error:
            raise DisconnectionError(f"the connection is dead: {error}") from error


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """A connection outside the pool, each statement a transaction. Raises psycopg.OperationalError."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True, **arguments())  # type: ignore[arg-type]


class Lock:
    """A named lock of the whole farm, held by this process for as long as its connection lives.

    `name` is hashed to 32 bits: two names that collide would exclude each other, which delays and harms nothing.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url, self.name = url, name
        self._key = zlib.crc32(name.encode()) - (1 << 31)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Try to have it; True when it is ours (already). False also while the database is away."""
        with self._guard:
            if self._connection is not None and self._alive():
                return True
            self._drop()
            try:
                self._connection = connect(self._url)
                row = self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_SPACE, self._key)).fetchone()
            except psycopg.Error:
                self._drop()
                return False
            if row is None or not row[0]:
                self._drop()
                return False
            return True

    def held(self) -> bool:
        """Whether it is still ours: asked of the database, since a lost connection is a lost lock."""
        with self._guard:
            return self._connection is not None and self._alive()

    def wait(self, limit_s: float, every_s: float = 0.25, stop: threading.Event | None = None) -> bool:
        """Try until it is ours or `limit_s` seconds are over."""
        until = time.monotonic() + limit_s
        stop = stop or threading.Event()
        while not self.take():
            if time.monotonic() >= until or stop.wait(every_s):
                return False
        return True

    def release(self) -> None:
        with self._guard:
            self._drop()

    def _alive(self) -> bool:
        assert self._connection is not None
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._drop()
            return False
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


@contextlib.contextmanager
def alone(url: str, name: str, limit_s: float = 60.0) -> Iterator[None]:
    """Nobody else in the farm does this at the same time. Raises TimeoutError."""
    lock = Lock(url, name)
    if not lock.wait(limit_s):
        raise TimeoutError(
            f"waited {limit_s:g} s for the lock {name!r}: another process of the farm has it, or the database is away"
        )
    try:
        yield
    finally:
        lock.release()
