"""A bundle that the farm's store has lost a file of."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.domain.outcomes import Phase
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work import deploy
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.step import run_step
from tests.work.factories import start_attempt


def test_a_bundle_that_lacks_a_file_is_the_users_to_send_again_and_no_other_device_is_tried(
    db: Database, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_attempt(db, store, tmp_path / "src")
    work = Work(db, tmp_path, store, WorkSettings())
    monkeypatch.setattr(deploy, "ensure_logcat", lambda _step: None)
    with db.read() as session:
        [bundle] = session.query(tables.Bundle)
    store.local_path(bundle.manifest["content"]["models/tiny.gguf"]["sha256"]).unlink()
    run_step(work, 1, Phase.DEPLOY, deploy.deploy_bundle)
    with db.read() as session:
        ended = session.get_one(tables.Attempt, 1)
    assert (ended.outcome, ended.cause, ended.blame) == ("deploy-failed", "missing-file", "user")
    assert "models/tiny.gguf" in str(ended.reason)
