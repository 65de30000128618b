"""kill -9 of the farm, of adb, of the runner, and cables that are pulled: every run ends right."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest
from sqlalchemy import select

from farm.domain.outcomes import Phase
from farm.store import tables
from farm.work.submit import cancel
from tests.waiting import eventually
from tests.work.real_farm import LONG_S, RealFarm

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(6)]


def passed(farm: RealFarm, run: int) -> Counter[str]:
    """How often each test passed, over all attempts of the run."""
    outcomes = [item for attempt in farm.attempts(run) for item in farm.tests(attempt.id).items()]
    return Counter(test for test, outcome in outcomes if outcome == "passed")


def underway(farm: RealFarm, run: int, count: int = 1) -> None:
    """Wait until so many tests have passed and the run goes on."""
    eventually(lambda: sum(passed(farm, run).values()) >= count, LONG_S, what=f"{count} tests passed")


def leases_of(farm: RealFarm) -> list[tables.Lease]:
    with farm.db.read() as session:
        return list(session.scalars(select(tables.Lease).order_by(tables.Lease.id)))


@pytest.fixture
def farm(real_farm: RealFarm) -> RealFarm:
    real_farm.add_device("rk3568", "V1")
    real_farm.start()
    real_farm.ready(1)
    return real_farm


def test_the_farm_is_killed_in_the_middle_and_the_next_start_adopts_the_runner(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    farm.kill_process()
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert passed(farm, run) == Counter(STEPS)  # nothing ran twice
    assert len(farm.attempts(run)) == 1
    assert len(leases_of(farm)) == 1
    assert farm.open_leases() == 0


def test_farm_and_adb_server_are_killed_at_once_and_no_finished_test_runs_twice(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    farm.kill()
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert passed(farm, run) == Counter(STEPS)
    assert farm.open_leases() == 0


def test_the_adb_server_is_killed_and_comes_back_by_itself(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    farm.kill_adb()
    assert farm.ended(run) == "passed", farm.story(run)
    assert passed(farm, run) == Counter(STEPS)
    assert farm.open_leases() == 0


def test_the_runner_is_killed_and_started_again_and_goes_on(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    [attempt] = farm.attempts(run)
    identity = json.loads((farm.state / "attempts" / str(attempt.id) / "runner.json").read_text())
    os.kill(identity["pid"], signal.SIGKILL)
    assert farm.ended(run) == "passed"
    assert len(farm.attempts(run)) == 1
    assert passed(farm, run) == Counter(STEPS)


def test_a_device_that_is_unplugged_for_a_while_is_tried_again(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    farm.fault("V1", "unplug", for_s=20)
    assert farm.ended(run) == "passed", farm.story(run)
    assert passed(farm, run) == Counter(STEPS)
    first, *_, last = farm.attempts(run)
    assert (first.outcome, last.outcome) == ("device-lost", "passed")
    assert farm.open_leases() == 0
    farm.ready(1)


def test_a_device_that_is_gone_for_good_ends_the_run_with_words_and_is_kept_from_others(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    underway(farm, run)
    farm.fault("V1", "unplug")
    assert farm.ended(run) == "device-lost"
    with farm.db.read() as session:
        [job] = session.scalars(select(tables.Job))
        device = session.get_one(tables.Device, 1)
    assert "did not come back" in str(job.wait_reason)
    assert device.health == "bad"
    assert "not cleaned" in str(device.health_reason)
    [first, *_] = farm.attempts(run)
    assert {"journal.jsonl", "logcat.zst"} <= set(farm.artifacts_of(first.id))
    farm.fault("V1", "replug")
    farm.ready(1)  # back, cleaned, checked


@pytest.mark.parametrize("phase", [Phase.PRECHECK, Phase.DEPLOY, Phase.EXECUTE, Phase.COLLECT, Phase.CLEAN])
def test_cancel_in_every_step_leaves_evidence_and_a_clean_device(farm: RealFarm, phase: Phase) -> None:
    suites = ("steady",) if phase is Phase.EXECUTE else ("smoke",)
    run = farm.submit(suites=suites)
    order = [p.value for p in Phase]

    def reached() -> bool:
        return order.index(farm.phase(run) or "planned") >= order.index(phase.value)

    eventually(reached, LONG_S, interval=0.005)
    cancel(farm.db, run, "ada")
    outcome = farm.ended(run)
    assert outcome in ("cancelled", "passed") if phase is not Phase.EXECUTE else outcome == "cancelled"
    [attempt] = farm.attempts(run)
    assert {"logcat.zst"} <= set(farm.artifacts_of(attempt.id)) or phase is Phase.PRECHECK
    with farm.db.read() as session:
        clean = session.get_one(tables.AttemptPhase, (attempt.id, "clean"))
    assert clean.detail["clean"] == "verified"
    assert farm.open_leases() == 0


def test_a_cancel_while_the_device_cools_ends_the_wait(farm: RealFarm) -> None:
    farm.fault("V1", "heat", to_c=80)
    run = farm.submit()

    def cooling() -> bool:
        return any("to cool to" in (a.waiting_for or "") for a in farm.attempts(run))

    eventually(cooling, LONG_S)
    cancel(farm.db, run, "ada")
    assert farm.ended(run) == "cancelled"
    assert farm.open_leases() == 0
