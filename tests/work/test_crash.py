"""kill -9 of the farm, of adb, of the runner: every run ends right."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest
from sqlalchemy import select

from farm.store import tables
from farm.store.logs import read_log
from tests.waiting import eventually
from tests.work.real_farm import RealFarm

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]


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
    farm.underway(run)
    farm.kill_process()
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert farm.passed(run) == Counter(STEPS)  # nothing ran twice
    assert len(farm.attempts(run)) == 1
    assert len(leases_of(farm)) == 1
    assert farm.open_leases() == 0


def test_farm_and_adb_server_are_killed_at_once_and_no_finished_test_runs_twice(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    farm.underway(run)
    farm.kill()
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert farm.passed(run) == Counter(STEPS)
    assert farm.open_leases() == 0


def test_the_adb_server_is_killed_and_comes_back_by_itself(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    farm.underway(run)
    farm.kill_adb()
    assert farm.ended(run) == "passed", farm.story(run)
    assert farm.passed(run) == Counter(STEPS)
    assert farm.open_leases() == 0


def test_the_runner_is_killed_and_started_again_and_goes_on(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    farm.underway(run)
    [attempt] = farm.attempts(run)
    identity = json.loads((farm.state / "attempts" / str(attempt.id) / "runner.json").read_text())
    os.kill(identity["pid"], signal.SIGKILL)
    assert farm.ended(run) == "passed"
    with farm.db.read() as session:
        log = read_log(session, farm.artifacts, farm.state, attempt.id, "runner", 0, 1 << 20)
    assert log is not None
    assert "farm: the runner was killed by SIGKILL (start 1); it is started again" in log.text
    assert len(farm.attempts(run)) == 1
    assert farm.passed(run) == Counter(STEPS)


@pytest.mark.slow
def test_a_farm_that_stays_away_longer_than_the_fence_comes_back_to_a_runner_that_ended_itself(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",), params={"step_s": 20})
    farm.underway(run)
    [attempt] = farm.attempts(run)
    farm.kill_process()
    journal = farm.state / "attempts" / str(attempt.id) / "journal.jsonl"
    eventually(lambda: '"kind":"end"' in journal.read_text(), 120)
    farm.start()
    assert farm.ended(run) == "passed", farm.story(run)
    assert farm.passed(run) == Counter(STEPS)
    assert farm.open_leases() == 0
