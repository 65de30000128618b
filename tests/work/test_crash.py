"""kill -9 of the farm, of adb, of the runner, and cables that are pulled: every run ends right."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest
from sqlalchemy import select

from farm.store import tables
from tests.waiting import eventually
from tests.work.real_farm import LONG_S, RealFarm

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]


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


@pytest.mark.slow
def test_a_farm_that_stays_away_longer_than_the_fence_comes_back_to_a_runner_that_ended_itself(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",), params={"step_s": 20})
    underway(farm, run)
    [attempt] = farm.attempts(run)
    farm.kill_process()
    journal = farm.state / "attempts" / str(attempt.id) / "journal.jsonl"
    eventually(lambda: '"kind":"end"' in journal.read_text(), 120)
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert passed(farm, run) == Counter(STEPS)
    assert farm.open_leases() == 0
