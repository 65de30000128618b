"""What every step does first and last."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.adb import errors
from farm.domain.causes import Cause
from farm.domain.outcomes import MEANING, Colour, Outcome, Phase
from farm.store import leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.settings import WorkSettings
from farm.work.step import Cut, Step, Stopping, adb_cut, run_step
from farm.work.submit import cancel
from tests.work.factories import start_attempt


@pytest.fixture
def work(db: Database, store: ArtifactStore, tmp_path: Path) -> Work:
    start_attempt(db, store, tmp_path / "src")
    return Work(db, tmp_path, store, WorkSettings())


def attempt(work: Work) -> tables.Attempt:
    with work.db.read() as session:
        return session.get_one(tables.Attempt, 1)


def fail(error: BaseException) -> object:
    def body(_step: Step) -> None:
        raise error

    return body


def never(_step: Step) -> None:
    raise AssertionError("this step must not be entered")


def test_a_step_notes_when_it_began_and_ended_and_what_it_found(work: Work) -> None:
    run_step(work, 1, Phase.DEPLOY, lambda step: step.detail.update(bytes_sent=7))
    with work.db.read() as session:
        row = session.get_one(tables.AttemptPhase, (1, "deploy"))
    assert row.ended_at is not None
    assert row.detail == {"bytes_sent": 7}
    assert attempt(work).phase == "deploy"
    assert attempt(work).waiting_for is None


def test_a_step_that_the_attempt_is_past_is_not_entered_again(work: Work) -> None:
    run_step(work, 1, Phase.SETTLE, lambda _step: None)
    run_step(work, 1, Phase.DEPLOY, never)
    assert attempt(work).phase == "settle"


def test_an_attempt_with_an_outcome_goes_straight_to_collect(work: Work) -> None:
    run_step(work, 1, Phase.PRECHECK, fail(Cut(Outcome.REFUSED, "no")))  # type: ignore[arg-type]
    for phase in (Phase.DEPLOY, Phase.SETTLE, Phase.EXECUTE):
        run_step(work, 1, phase, never)
    entered: list[Phase] = []
    run_step(work, 1, Phase.COLLECT, lambda step: entered.append(step.phase))
    assert entered == [Phase.COLLECT]


def test_a_cancel_is_seen_before_the_step_does_anything(work: Work) -> None:
    cancel(work.db, 1, "ada")
    run_step(work, 1, Phase.DEPLOY, never)
    assert (attempt(work).outcome, attempt(work).reason) == ("cancelled", "cancelled during deploy")


def test_a_lost_lease_ends_the_attempt_and_is_nobodys_failure(work: Work) -> None:
    with work.db.session() as session:
        [lease] = leases.open_leases(session)
        leases.release(session, lease.id, work.db.now(), "somebody took it")
    run_step(work, 1, Phase.SETTLE, never)
    assert attempt(work).outcome == "infra-error"
    assert "somebody took it" in str(attempt(work).reason)


def test_a_stop_of_the_farm_records_nothing(work: Work) -> None:
    work.stopping.set()
    with pytest.raises(Stopping):
        run_step(work, 1, Phase.PRECHECK, never)
    work.stopping.clear()

    def stopped(step: Step) -> None:
        work.stopping.set()
        step.pause(60)

    with pytest.raises(Stopping):
        run_step(work, 1, Phase.PRECHECK, stopped)
    with work.db.read() as session:
        row = session.get_one(tables.AttemptPhase, (1, "precheck"))
    assert row.ended_at is None
    assert attempt(work).outcome is None


def test_a_bug_of_the_farm_is_an_infra_error_with_its_trace_as_evidence(work: Work) -> None:
    run_step(work, 1, Phase.DEPLOY, fail(ZeroDivisionError("oops")))  # type: ignore[arg-type]
    assert attempt(work).outcome == "infra-error"
    with work.db.read() as session:
        [incident] = session.scalars(select(tables.Incident))
    assert incident.klass == "farm-error"
    assert "ZeroDivisionError" in str(incident.evidence)


def test_a_full_disk_of_the_host_is_no_bug_of_the_farm(work: Work) -> None:
    run_step(work, 1, Phase.DEPLOY, fail(OSError(28, "No space left on device")))  # type: ignore[arg-type]
    assert (attempt(work).cause, attempt(work).blame) == ("host-disk", "host")
    with work.db.read() as session:
        assert list(session.scalars(select(tables.Incident))) == []


@pytest.mark.parametrize(
    ("phase", "error", "outcome"),
    [
        (Phase.DEPLOY, errors.DeviceGone("x"), Outcome.DEVICE_LOST),
        (Phase.PRECHECK, errors.IdentityMismatch("x"), Outcome.DEVICE_LOST),
        (Phase.DEPLOY, errors.AdbServerGone("x"), Outcome.INFRA_ERROR),
        (Phase.DEPLOY, errors.NoSpace("x", needed=2, free=1), Outcome.DEPLOY_FAILED),
        (Phase.DEPLOY, errors.Cancelled("x"), Outcome.CANCELLED),
        (Phase.SETTLE, errors.ShellTimeout("x"), Outcome.INFRA_ERROR),
    ],
)
def test_trouble_with_adb_or_the_device_is_never_red(phase: Phase, error: errors.AdbError, outcome: Outcome) -> None:
    cut = adb_cut(phase, error)
    assert cut.outcome is outcome
    assert MEANING[cut.outcome].colour is not Colour.BAD
    assert error.remedy in cut.reason or outcome is Outcome.CANCELLED


def test_what_a_step_waits_for_is_shown(work: Work) -> None:
    seen: list[str | None] = []

    def body(step: Step) -> None:
        step.say("the device to cool")
        seen.append(attempt(work).waiting_for)

    run_step(work, 1, Phase.SETTLE, body)
    assert seen == ["the device to cool"]
    assert attempt(work).waiting_for is None


def test_a_step_that_the_adb_servers_death_interrupted_is_entered_again(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.work.step._ADB_PAUSE_S", 0.01)
    entered: list[str | None] = []

    def body(_step: Step) -> None:
        entered.append(attempt(work).waiting_for)
        if len(entered) == 1:
            raise errors.AdbServerGone("died")

    run_step(work, 1, Phase.DEPLOY, body)
    assert entered == [None, "the adb server of its host, which is being started again"]
    assert attempt(work).outcome is None


@pytest.mark.parametrize("error", [errors.DeviceGone("device 'd1' not found"), errors.DeviceOffline("connecting")])
def test_what_a_new_adb_server_does_not_list_yet_is_not_gone_and_the_step_is_entered_again(
    work: Work, error: errors.AdbError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.work.step._ADB_PAUSE_S", 0.01)
    entered: list[str | None] = []

    def body(_step: Step) -> None:
        entered.append(attempt(work).waiting_for)
        if len(entered) < 4:
            raise error

    work.adb_steady = lambda: False
    run_step(work, 1, Phase.DEPLOY, body)
    assert len(entered) == 4
    assert set(entered[1:]) == {"the new adb server of its host to find the device again"}
    assert attempt(work).outcome is None


def test_what_a_steady_adb_server_does_not_list_is_gone_at_once(work: Work) -> None:
    entered: list[int] = []

    def body(_step: Step) -> None:
        entered.append(1)
        raise errors.DeviceGone("device 'd1' not found")

    run_step(work, 1, Phase.DEPLOY, body)
    ended = attempt(work)
    assert (entered, ended.outcome, ended.cause) == ([1], "device-lost", "gone")


def test_an_adb_server_that_stays_away_is_the_hosts_fault_and_not_the_devices(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.work.step._ADB_PAUSE_S", 0.01)
    run_step(work, 1, Phase.DEPLOY, fail(errors.AdbServerGone("away")))  # type: ignore[arg-type]
    ended = attempt(work)
    assert (ended.outcome, ended.cause, ended.blame) == ("infra-error", "adb-server", "host")


@pytest.mark.parametrize(
    ("error", "cause", "blame"),
    [
        (errors.NoSpace("full", needed=2, free=1), "storage-full", "device"),
        (errors.WrongContent("differs"), "wrong-content", "device"),
        (errors.RemoteError("refused"), "transfer-broke", "device"),
        (OSError(28, "No space left on device"), "host-disk", "host"),
        (ZeroDivisionError("oops"), "farm-bug", "farm"),
        (Cut(Outcome.DEPLOY_FAILED, "no such file", Cause.MISSING_FILE), "missing-file", "user"),
        (errors.DeviceOffline("x"), "offline", "device"),
    ],
)
def test_a_failed_deploy_says_whose_it_is(work: Work, error: Exception, cause: str, blame: str) -> None:
    run_step(work, 1, Phase.DEPLOY, fail(error))  # type: ignore[arg-type]
    assert (attempt(work).cause, attempt(work).blame) == (cause, blame)


def test_a_device_that_is_held_for_heat_ends_what_runs_on_it(work: Work) -> None:
    with work.db.session() as session:
        device = session.get_one(tables.Device, 1)
        device.hot_since, device.temperature_c = work.db.now(session) - timedelta(minutes=16), 47.4
        device.has_battery = True
    run_step(work, 1, Phase.SETTLE, lambda step: step.check())
    ended = attempt(work)
    assert (ended.outcome, ended.cause, ended.blame) == ("infra-error", "too-hot", "device")
    assert "now 47 °C" in str(ended.reason)
