"""The first step names what is wrong with the device: lost, silent, full, unfit; and whose that is."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from farm.adb import errors, health
from farm.adb.health import HealthReport
from farm.domain.outcomes import Phase
from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work import precheck
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.step import run_step
from tests.work.factories import start_attempt


def unanswered(error: errors.AdbError) -> HealthReport:
    gone = isinstance(error, errors.AdbServerGone)
    return HealthReport(ok=False, problems=[str(error)], ill=not gone, server_gone=gone, error=error)


@pytest.mark.parametrize(
    ("report", "outcome", "cause", "blame"),
    [
        (unanswered(errors.DeviceOffline("x")), "device-lost", "offline", "device"),
        (unanswered(errors.DeviceGone("x")), "device-lost", "gone", "device"),
        (unanswered(errors.ShellTimeout("x")), "infra-error", "device-slow", "device"),
        (unanswered(errors.AdbServerGone("x")), "infra-error", "adb-server", "host"),
        (HealthReport(ok=False, problems=["full"], free_bytes=0), "infra-error", "storage-full", "device"),
        (HealthReport(ok=False, problems=["empty"], battery_pct=9), "infra-error", "device-unfit", "device"),
    ],
)
def test_a_device_that_stays_unfit_is_named_for_what_it_is(
    db: Database,
    store: ArtifactStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    report: HealthReport,
    outcome: str,
    cause: str,
    blame: str,
) -> None:
    start_attempt(db, store, tmp_path / "src")
    work = Work(db, tmp_path, store, WorkSettings(online_wait_s=0.0))
    monkeypatch.setattr(health, "check", lambda _device: report)
    monkeypatch.setattr(precheck, "ensure_logcat", lambda _step: None)
    monkeypatch.setattr(precheck, "held", lambda _step: nullcontext())
    run_step(work, 1, Phase.PRECHECK, precheck.precheck)
    with db.read() as session:
        ended = session.get_one(tables.Attempt, 1)
    assert (ended.outcome, ended.cause, ended.blame) == (outcome, cause, blame)
