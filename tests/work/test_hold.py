"""The agent touches a device only while it holds its lock; whoever else has it is named, and the wait for it ends."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from farm.adb.locks import device_lock
from farm.domain.outcomes import Phase
from farm.settings import locks_dir
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.execute import _Execution
from farm.work.hold import held, lock_of
from farm.work.settings import WorkSettings
from farm.work.step import Step, run_step
from farm.work.submit import cancel
from tests.waiting import eventually
from tests.work.factories import start_attempt


@pytest.fixture
def work(db: Database, store: ArtifactStore, tmp_path: Path) -> Work:
    start_attempt(db, store, tmp_path / "src")
    return Work(db, tmp_path / ".farm", store, WorkSettings())


def attempt(work: Work) -> tables.Attempt:
    with work.db.read() as session:
        return session.get_one(tables.Attempt, 1)


def test_a_device_that_another_farm_of_this_machine_holds_is_waited_for_in_bounds_and_its_holder_named(
    work: Work,
) -> None:
    with work.db.read() as session:
        row = session.get_one(tables.Device, attempt(work).device_id)
    other = device_lock(locks_dir(), row.serial, row.address or "")
    assert other.try_acquire("attempt 3 of the farm in /home/ann/.farm/demo")
    try:
        run_step(work, 1, Phase.DEPLOY, lambda step: held(step, 0.2).__enter__())
    finally:
        other.release()
    ended = attempt(work)
    assert ended.outcome == "infra-error"
    words = f"{row.name} is held by pid {os.getpid()} (attempt 3 of the farm in /home/ann/.farm/demo) for more than"
    assert words in str(ended.reason)


def test_the_wait_for_a_device_is_shown_and_a_cancel_ends_it(work: Work) -> None:
    with work.db.read() as session:
        other = lock_of(work, session.get_one(tables.Device, attempt(work).device_id))
    assert other.try_acquire("a run at a desk")
    waiting = threading.Thread(target=run_step, args=(work, 1, Phase.DEPLOY, lambda step: held(step).__enter__()))
    waiting.start()
    try:
        eventually(lambda: "(a run at a desk)" in (attempt(work).waiting_for or ""), what="the wait to be shown")
        cancel(work.db, 1, "ann")
        waiting.join(60)
    finally:
        other.release()
    assert attempt(work).outcome == "cancelled"


@pytest.mark.parametrize("outcome", ["device-lost", "infra-error"])
def test_tests_that_finished_before_the_farms_own_trouble_are_not_run_again(work: Work, outcome: str) -> None:
    with work.db.session() as session:
        first = session.get_one(tables.Attempt, 1)
        first.outcome, first.phase = outcome, "done"
        first.ended_at = work.db.now(session)
        ends = (("a", "passed", None), ("b", "failed", None), ("c", "error", outcome), ("d", None, None))
        for test, result, cause in ends:
            session.add(tables.Test(attempt_id=1, test_id=test, outcome=result, cause=cause))
        values = {column.name: getattr(first, column.name) for column in tables.Attempt.__table__.columns}
        again = {"id": 2, "number": 2, "workflow_id": "again", "phase": "settle", "outcome": None, "ended_at": None}
        session.add(tables.Attempt(**{**values, **again}))
    found: list[list[str]] = []

    def look(step: Step) -> None:
        found.append(_Execution(step)._finished())

    run_step(work, 2, Phase.EXECUTE, look)
    assert found == [["a", "b"]]
