"""Renewals on a host that is not well: one attempt's trouble is not the others', and a full disk ends no lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farm.store import leases
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work import heart
from farm.work.context import Work
from farm.work.heart import Heart
from farm.work.renewal import write_renewed
from farm.work.settings import WorkSettings
from tests.work.factories import add_device


def test_a_renewal_needs_no_room_where_there_was_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_renewed(tmp_path)
    before = (tmp_path / "renewed").read_bytes()

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "replace", full)
    write_renewed(tmp_path)
    after = (tmp_path / "renewed").read_bytes()
    assert after != before
    assert len(after) == len(before)


def test_a_folder_that_is_gone_needs_no_renewal(tmp_path: Path) -> None:
    write_renewed(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_a_runner_that_cannot_be_told_does_not_keep_the_others_from_being_told(
    db: Database, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(db, tmp_path, store, WorkSettings(renew_every_s=0.0))
    now = datetime.now(UTC)
    for number in (1, 2, 3):
        device = add_device(db, f"d{number}")
        with db.session() as session:
            leases.grant(session, device, f"attempt:{number}", None, now, now + timedelta(hours=1))
    told: list[str] = []

    def tell(folder: Path) -> None:
        if folder.name == "1":
            raise OSError(28, "No space left on device")
        told.append(folder.name)

    monkeypatch.setattr(heart, "write_renewed", tell)
    Heart(work).beat()
    assert sorted(told) == ["2", "3"]
