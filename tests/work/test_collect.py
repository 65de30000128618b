"""Collecting: everything that was left is kept once, and nothing from elsewhere is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from farm.domain.journal import Record
from farm.domain.outcomes import Phase
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.collect import collect
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.step import run_step
from tests.work.factories import start_attempt


@pytest.fixture
def work(database_url: str, store: ArtifactStore, tmp_path: Path) -> Iterator[Work]:
    """On either database: the same rows, and not the same driver."""
    db = Database(database_url)
    db.migrate()
    start_attempt(db, store, tmp_path / "src")
    made = Work(db, tmp_path, store, WorkSettings())
    (made.attempt_dir(1) / "work" / "artifacts").mkdir(parents=True)
    yield made
    db.close()


def collected(work: Work, *artifacts: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Runs the step with these artifact records; what is stored, and the phase's detail."""
    lines = [Record(n, 1.0, 1.0, "artifact", fields).line() for n, fields in enumerate(artifacts)]
    (work.attempt_dir(1) / "journal.jsonl").write_text("".join(lines))
    run_step(work, 1, Phase.COLLECT, collect)
    with work.db.read() as session:
        rows = session.scalars(select(tables.Artifact)).all()
        detail = session.get_one(tables.AttemptPhase, (1, "collect")).detail
    return {row.name: work.artifacts.local_path(row.sha256).read_bytes() for row in rows}, detail


def test_logs_named_artifacts_and_unnamed_ones_are_kept(work: Work) -> None:
    folder = work.attempt_dir(1)
    (folder / "runner.log").write_text("log")
    (folder / "work/artifacts/trace.json").write_text("{}")
    (folder / "work/artifacts/deep").mkdir()
    (folder / "work/artifacts/deep/unnamed.bin").write_bytes(b"u")
    kept, _ = collected(work, {"name": "trace", "path": "work/artifacts/trace.json", "media_type": "application/json"})
    assert kept["runner.log"] == b"log"
    assert kept["trace"] == b"{}"
    assert kept["deep/unnamed.bin"] == b"u"
    assert "trace.json" not in kept  # it has its name already


def test_collecting_again_keeps_everything_once(work: Work) -> None:
    (work.attempt_dir(1) / "runner.log").write_text("log")
    first, _ = collected(work)
    assert collected(work)[0] == first


def test_nothing_outside_the_attempts_folder_is_kept(work: Work, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    artifacts = work.attempt_dir(1) / "work/artifacts"
    (artifacts / "link").symlink_to(tmp_path / "secret")
    (artifacts / "folder").symlink_to(tmp_path)
    os.mkfifo(artifacts / "fifo")
    kept, detail = collected(
        work,
        {"name": "a", "path": "../../secret"},
        {"name": "b", "path": str(tmp_path / "secret")},
        {"name": "c", "path": "work/artifacts/link"},
        {"name": "d", "path": "work/artifacts/folder/secret"},
        {"name": "e", "path": "work/artifacts/absent"},
        {"name": "runner.log", "path": "work/artifacts/link"},
        {"name": "", "path": "work/artifacts/link"},
    )
    assert b"secret" not in kept.values()
    assert set(kept) == {"journal.jsonl"}
    assert "e" in detail["missing"]
    assert any(name.startswith("fifo") for name in detail["missing"])
