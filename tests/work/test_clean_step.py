"""Cleaning as a step that may be entered again, on a device that may be somebody else's by then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from farm.domain.outcomes import Phase
from farm.store import leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work import clean, step
from farm.work.clean import clean_device
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.step import run_step
from tests.work.factories import start_attempt


@pytest.fixture
def work(db: Database, store: ArtifactStore, tmp_path: Path) -> Work:
    start_attempt(db, store, tmp_path / "src")
    made = Work(db, tmp_path, store, WorkSettings())
    made.attempt_dir(1).mkdir(parents=True)
    (made.attempt_dir(1) / "snapshot.json").write_text("{}")
    return made


def detail(work: Work) -> str:
    with work.db.read() as session:
        return str(session.get_one(tables.AttemptPhase, (1, "clean")).detail["clean"])


def test_a_device_whose_lease_has_ended_is_not_touched_again(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """The farm was killed between the lease's end and its note of it: by now the next holder works on the device."""
    with work.db.session() as session:
        [lease] = leases.open_leases(session)
        leases.end(session, lease.id, work.db.now(session), "cleaned")

    def touched(*_arguments: Any) -> None:
        raise AssertionError("this device is somebody else's")

    monkeypatch.setattr(clean, "restore", touched)
    run_step(work, 1, Phase.CLEAN, clean_device)
    assert detail(work) == "verified"
    with work.db.read() as session:
        assert session.get_one(tables.Device, 1).health == "good"


def test_a_database_that_is_away_is_no_reason_to_quarantine_the_device(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "is_away", lambda _work, error: isinstance(error, OperationalError))
    monkeypatch.setattr(clean, "is_away", lambda _work, error: isinstance(error, OperationalError))
    monkeypatch.setattr(step, "_AGAIN_S", 0.01)
    tries = iter([OperationalError("SELECT", {}, Exception("server closed the connection unexpectedly"))])

    def restore(*_arguments: Any) -> Any:
        error = next(tries, None)
        if error is not None:
            raise error
        return SimpleNamespace(ok=True, killed=[], removed=[], differences=[])

    monkeypatch.setattr(clean, "restore", restore)
    run_step(work, 1, Phase.CLEAN, clean_device)
    assert detail(work) == "verified"
    with work.db.read() as session:
        assert session.get_one(tables.Device, 1).health == "good"
        assert leases.open_leases(session) == []
