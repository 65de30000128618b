"""On PostgreSQL changes of all processes arrive in order, none left out, whoever commits first."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from farm.store import tables
from farm.store.bus import Change, touch, write_changes
from farm.store.db import Database
from tests.postgres import PostgresServer, new_database
from tests.waiting import eventually

NOW = datetime(2030, 1, 1, tzinfo=UTC)

WRITER = textwrap.dedent(
    """
    import random, sys, time
    from datetime import UTC, datetime
    from farm.store.bus import touch, write_changes
    from farm.store.db import Database
    url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    db, dice = Database(url), random.Random(name)
    for n in range(count):
        try:
            with db.session() as session:
                touch(session, "run", f"{name}:{n}", at=datetime.now(UTC))
                write_changes(session)
                time.sleep(dice.random() * 0.02)  # others take numbers and commit meanwhile
                if dice.random() < 0.2:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    db.close()
    """
)


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with new_database(postgres_server, migrated=True) as made:
        yield made


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    made = Database(url)
    yield made
    made.close()


def write(db: Database, *refs: object) -> None:
    with db.session() as session:
        for ref in refs:
            touch(session, "run", ref, at=NOW)


def roll_back(db: Database) -> None:
    with db.session() as session:
        touch(session, "run", "never", at=NOW)
        write_changes(session)
        raise ZeroDivisionError


def test_no_change_of_many_writers_is_lost_doubled_or_out_of_order(db: Database, url: str) -> None:
    heard: list[Change] = []
    db.bus.listen(heard.extend)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, f"w{n}", "40"]) for n in range(4)]
    for writer in writers:
        assert writer.wait(120) == 0
    with db.read() as session:
        kept = list(session.scalars(select(tables.Change.id).order_by(tables.Change.id)))
    assert len(kept) > 100
    eventually(lambda: len(heard) >= len(kept), what="every change is heard")
    assert [change.id for change in heard] == kept


def test_a_change_that_commits_late_is_waited_for_and_one_that_never_does_is_not(db: Database) -> None:
    heard: list[Change] = []
    db.bus.listen(heard.extend)
    late = db.session()
    session = late.__enter__()
    touch(session, "run", "late", at=NOW)
    write_changes(session)
    write(db, "quick")
    with pytest.raises(ZeroDivisionError):
        roll_back(db)
    write(db, "last")
    assert heard == []
    late.__exit__(None, None, None)
    eventually(lambda: [c.ref for c in heard] == ["late", "quick", "last"], what="all three, in the order of their ids")


def test_a_subscriber_of_another_process_gets_what_it_missed_and_then_what_comes(db: Database, url: str) -> None:
    other = Database(url)

    async def scenario() -> list[str]:
        write(other, 1, 2, 3)
        stream = other.bus.subscribe(since_id=1)
        mine = db.bus.subscribe(since_id=1)
        got = [(await asyncio.wait_for(anext(mine), 30)).ref for _ in range(2)]
        await asyncio.to_thread(write, other, 4)
        got.append((await asyncio.wait_for(anext(mine), 30)).ref)
        await asyncio.to_thread(write, db, 5)
        got.append((await asyncio.wait_for(anext(mine), 30)).ref)
        return got + [(await asyncio.wait_for(anext(stream), 30)).ref for _ in range(4)]

    try:
        assert asyncio.run(scenario()) == ["2", "3", "4", "5", "2", "3", "4", "5"]
    finally:
        other.close()


def test_subscribers_that_come_and_go_while_many_write_miss_nothing(db: Database, url: str) -> None:
    stop = threading.Event()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, f"w{n}", "30"]) for n in range(3)]
    seen: list[int] = []

    async def follow() -> None:
        last, dice = 0, random.Random(7)
        while not stop.is_set():
            stream = db.bus.subscribe(since_id=last)
            try:
                for _ in range(dice.randrange(1, 20)):
                    change = await asyncio.wait_for(anext(stream), 1.5)
                    seen.append(change.id)
                    last = change.id
            except TimeoutError:
                pass
            finally:
                await stream.aclose()  # type: ignore[attr-defined]

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    for writer in writers:
        assert writer.wait(120) == 0
    with db.read() as session:
        kept = list(session.scalars(select(tables.Change.id).order_by(tables.Change.id)))
    try:
        eventually(lambda: len(seen) >= len(kept), what="every change is seen")
    finally:
        stop.set()
        thread.join(60)
    assert seen == kept


def test_the_feed_goes_on_after_the_server_was_restarted() -> None:
    server = PostgresServer()
    db = Database(server.create(migrated=True))
    try:
        heard: list[Change] = []
        db.bus.listen(heard.extend)
        write(db, "before")
        server.restart()
        write(db, "after")
        eventually(lambda: [c.ref for c in heard] == ["before", "after"], what="both are heard")
    finally:
        db.close()
        server.close()
