"""Changes reach those who listen after the commit, in order and without gaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from farm.store import bus as bus_module
from farm.store.bus import Change, touch, write_changes
from farm.store.db import Database
from tests.waiting import eventually

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def write(db: Database, *refs: int) -> None:
    with db.session() as session:
        for ref in refs:
            touch(session, "run", ref, at=NOW, run_id=ref)


async def take(stream: AsyncIterator[Change], count: int) -> list[str]:
    return [(await asyncio.wait_for(anext(stream), 30)).ref for _ in range(count)]


def test_a_change_is_heard_after_the_commit_and_never_when_it_is_rolled_back(db: Database) -> None:
    heard: list[Change] = []
    db.bus.listen(heard.extend)

    def fail_after_writing() -> None:
        with db.session() as session:
            touch(session, "run", 1, at=NOW)
            write_changes(session)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_writing()
    assert heard == []
    write(db, 2)
    eventually(lambda: heard, what="the change is heard")
    assert [(c.topic, c.ref, c.run_id) for c in heard] == [("run", "2", 2)]


def test_a_subscriber_gets_what_it_missed_and_then_what_comes(db: Database) -> None:
    async def scenario() -> list[str]:
        write(db, 1, 2, 3)
        stream = db.bus.subscribe(since_id=1)
        first = await take(stream, 2)
        await asyncio.to_thread(write, db, 4, 5)
        return first + await take(stream, 2)

    assert asyncio.run(scenario()) == ["2", "3", "4", "5"]


def test_a_subscriber_without_a_past_hears_from_now_on(db: Database) -> None:
    async def scenario() -> list[str]:
        write(db, 1)
        stream = db.bus.subscribe()
        first = asyncio.ensure_future(take(stream, 1))
        for ref in range(2, 200):
            await asyncio.to_thread(write, db, ref)
            if first.done():
                break
            await asyncio.sleep(0)
        return await first

    assert "1" not in asyncio.run(scenario())


def test_a_slow_subscriber_reads_the_table_and_misses_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "BACKLOG", 3)

    async def scenario() -> list[str]:
        write(db, 0)
        stream = db.bus.subscribe(since_id=0)
        got = await take(stream, 1)
        for ref in range(1, 20):
            await asyncio.to_thread(write, db, ref)
            await asyncio.sleep(0)
        got += await take(stream, 3)
        await asyncio.to_thread(write, db, 20)
        return got + await take(stream, 17)

    assert asyncio.run(scenario()) == [str(n) for n in range(21)]


def test_a_listener_that_fails_does_not_fail_the_writer(db: Database) -> None:
    def broken(_changes: object) -> None:
        raise OSError("gone")

    db.bus.listen(broken)
    write(db, 1)
    with db.read() as session:
        assert [c.ref for c in bus_module.changes_after(session, 0)] == ["1"]
