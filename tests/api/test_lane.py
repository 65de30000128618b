"""Writers that take turns go together where they wait, and are answered each for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from farm.api.lane import TOGETHER, Lane, Work
from farm.store import tables
from farm.store.db import Database, sqlite_url
from tests.waiting import eventually


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(sqlite_url(tmp_path / "farm.sqlite"))
    database.migrate()
    yield database
    database.close()


class Refused(Exception):
    pass


def make(db: Database, name: str) -> Work:
    def work(session: Session) -> str:
        session.add(tables.Team(name=name, weight=1.0, created_at=db.now(session)))
        session.flush()
        return name

    return work


def refuse(db: Database, name: str) -> Work:
    def work(session: Session) -> str:
        make(db, name)(session)
        raise Refused(name)

    return work


def teams(db: Database) -> set[str]:
    with db.read() as session:
        return set(session.scalars(select(tables.Team.name)))


def behind(db: Database, works: list[Work]) -> tuple[list[object], int]:
    """(the answers to works that come while another is at work, the commits that they took)."""
    at_work, go_on = threading.Event(), threading.Event()
    commits: list[object] = []

    def first(_session: Session) -> None:
        at_work.set()
        assert go_on.wait(60)

    async def scenario() -> list[object]:
        lane = Lane(db)
        before = asyncio.ensure_future(lane.run(first))
        await asyncio.to_thread(at_work.wait, 60)
        waiting = [asyncio.ensure_future(lane.run(work)) for work in works]
        await asyncio.to_thread(eventually, lambda: len(lane._entries) == len(works), what="they wait")
        event.listen(db.engine, "commit", commits.append)
        go_on.set()
        await before
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    return asyncio.run(scenario()), len(commits)  # the connection of the one before does not listen


def test_what_waits_goes_in_one_transaction(db: Database) -> None:
    names = [f"t{n}" for n in range(TOGETHER)]
    assert behind(db, [make(db, name) for name in names]) == (names, 1)
    assert set(names) <= teams(db)


def test_one_that_is_refused_leaves_nothing_and_harms_nobody(db: Database) -> None:
    answers, _ = behind(db, [make(db, "a"), refuse(db, "b"), make(db, "c"), make(db, "a")])
    assert [str(answer) if isinstance(answer, Refused) else answer for answer in answers[:3]] == ["a", "b", "c"]
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[3], Exception)  # there is an `a` already
    assert {"a", "c"} == teams(db) & {"a", "b", "c"}


def test_who_has_gone_is_no_trouble_for_the_next(db: Database) -> None:
    async def scenario() -> object:
        lane = Lane(db)
        gone = asyncio.ensure_future(lane.run(make(db, "gone")))
        await asyncio.sleep(0)
        gone.cancel()
        return await lane.run(make(db, "next"))

    assert asyncio.run(scenario()) == "next"
    assert {"gone", "next"} <= teams(db)
