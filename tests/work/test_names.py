"""One process per state folder and per host name: who comes second is told so at once, not after the wait."""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.postgres import Lock
from farm.work import host
from farm.work.host import AgentWork, AlreadyRunning
from farm.work.settings import WorkSettings
from tests.waiting import eventually


def agent(db: Database, state: Path) -> AgentWork:
    settings = WorkSettings(host="lab-1", adb_port=1)
    return AgentWork(db, ArtifactStore(state / "artifacts"), state, settings, state / "devices.yaml")


@pytest.fixture
def first(db: Database, tmp_path: Path) -> Iterator[AgentWork]:
    work = agent(db, tmp_path)
    work._own(wait_s=1.0)
    yield work
    assert work._lock is not None
    work._lock.close()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "farm.work.host"]


def test_a_second_farm_in_a_state_folder_is_told_at_once_whom_it_waits_for(
    db: Database, tmp_path: Path, first: AgentWork, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    second = agent(db, tmp_path)
    waits = threading.Thread(target=second._own, args=(60.0,))
    waits.start()
    try:
        eventually(lambda: said(caplog), what="the second one to say why nothing happens")
        assert waits.is_alive(), "it waits on: the first may just be going"
        [line] = said(caplog)
        assert line == f"another farm works in {tmp_path.resolve()}: waiting up to 60 s for it to end"
        assert first._lock is not None
        first._lock.close()
    finally:
        first.work.stopping.set()
        waits.join(30)
    assert not waits.is_alive(), "the first is gone: the second goes on"
    assert second._lock is not None
    second._lock.close()


def test_a_second_agent_of_a_host_is_told_at_once_and_refused_in_the_end(
    postgres: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "PEER_S", 0)
    taken = Lock(postgres, "host:lab-1")
    assert taken.take()
    db = Database(postgres)
    try:
        with pytest.raises(AlreadyRunning, match=r"another agent speaks for the host 'lab-1': stop it, or choose"):
            agent(db, tmp_path)._own(wait_s=0.0)
    finally:
        taken.release()
        db.close()
    assert said(caplog) == ["another agent speaks for the host 'lab-1': waiting up to 0 s for it to end"]


def test_a_host_says_where_its_adb_server_is(db: Database, tmp_path: Path) -> None:
    agent(db, tmp_path)._register()
    with db.read() as session:
        info = session.get_one(tables.Host, "lab-1").info
    assert (info["adb_port"], info["node"]) == (1, platform.node())
