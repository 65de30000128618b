"""One text for every stream; who takes it slowly loses nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.api import live as module
from farm.api.live import SIGN_OF_LIFE, Live
from farm.store.bus import touch
from farm.store.db import Database, sqlite_url


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(sqlite_url(tmp_path / "farm.sqlite"))
    database.migrate()
    yield database
    database.close()


def write(db: Database, *refs: int) -> None:
    with db.session() as session:
        for ref in refs:
            touch(session, "job", ref, at=db.now(session))


def refs(text: bytes) -> list[int]:
    return [int(ref) for ref in re.findall(rb'"ref": "(\d+)"', text)]


def started(db: Database, stopping: asyncio.Event) -> Live:
    return Live(db.bus, db.changes, db.newest_known, lambda: stopping)


async def take(live: Live, since: int, count: int) -> list[int]:
    """The first refs that a stream is given."""
    found: list[int] = []
    async for text in live.pieces(since, None, lambda: 30.0):
        found += refs(text)
        if len(found) >= count:
            break
    return found


def test_every_stream_gets_all_in_order_whenever_it_came(db: Database) -> None:
    async def scenario() -> list[list[int]]:
        live = started(db, asyncio.Event())
        await asyncio.to_thread(write, db, 1, 2, 3)
        streams = [asyncio.ensure_future(take(live, since, 8 - since)) for since in (0, 1, 3)]
        for ref in range(4, 9):
            await asyncio.to_thread(write, db, ref)
        return list(await asyncio.wait_for(asyncio.gather(*streams), 60))

    assert asyncio.run(scenario()) == [list(range(since + 1, 9)) for since in (0, 1, 3)]


def test_a_stream_that_is_too_far_behind_reads_the_table(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEHIND", 2)
    monkeypatch.setattr(module, "TOGETHER_S", 0.0)

    async def scenario() -> list[int]:
        live, found = started(db, asyncio.Event()), []
        stream = live.pieces(0, None, lambda: 0.05)
        assert await anext(stream) == SIGN_OF_LIFE  # it is there, and takes nothing for a while
        for ref in range(20):
            await asyncio.to_thread(write, db, ref)
            await asyncio.sleep(0.01)
        while len(found) < 20:
            found += refs(await asyncio.wait_for(anext(stream), 30))
        await stream.aclose()
        return found

    assert asyncio.run(scenario()) == list(range(20))


def test_the_text_is_made_once_for_all_who_want_everything(db: Database) -> None:
    async def scenario() -> tuple[bytes, bytes]:
        live = started(db, asyncio.Event())
        streams = [live.pieces(0, None, lambda: 0.05) for _ in range(2)]
        for stream in streams:
            assert await anext(stream) == SIGN_OF_LIFE
        await asyncio.to_thread(write, db, 1)
        pieces = []
        for stream in streams:
            while (text := await asyncio.wait_for(anext(stream), 30)) == SIGN_OF_LIFE:
                pass
            pieces.append(text)
            await stream.aclose()
        return pieces[0], pieces[1]

    first, second = asyncio.run(scenario())
    assert refs(first) == [1]
    assert first is second


def test_the_end_of_the_application_ends_every_stream(db: Database) -> None:
    async def scenario() -> list[bytes]:
        stopping = asyncio.Event()
        live = started(db, stopping)
        stream = live.pieces(0, None, lambda: 0.05)
        assert await anext(stream) == SIGN_OF_LIFE
        stopping.set()
        return [text async for text in stream]

    assert set(asyncio.run(scenario())) <= {SIGN_OF_LIFE}
