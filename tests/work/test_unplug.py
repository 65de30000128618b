"""Cables that are pulled in every phase of an attempt: the outcome, the device's health, and what is left on it."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import select

from farm.store import tables
from tests.work.real_farm import RealFarm

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]
#: One command on the device takes at least so long: a phase lasts until the cable is out.
SLOW_MS = 1500


def begin(farm: RealFarm, give_up_s: float) -> RealFarm:
    """A farm with one device that waits for nothing long: what is unplugged for a few seconds is lost."""
    farm.settings = {"online_wait_s": 2.0, "clean_wait_s": 1.0, "give_up_s": give_up_s}
    farm.add_device("rk3568", "V1")
    farm.start()
    farm.ready(1)
    return farm


@pytest.fixture
def farm(real_farm: RealFarm) -> RealFarm:
    return begin(real_farm, give_up_s=3.0)


@pytest.fixture
def patient_farm(real_farm: RealFarm) -> RealFarm:
    """A retry waits there for its device to come back."""
    return begin(real_farm, give_up_s=60.0)


def reasons(farm: RealFarm) -> str:
    with farm.db.read() as session:
        return "; ".join(str(job.wait_reason) for job in session.scalars(select(tables.Job)))


def quarantined(farm: RealFarm) -> None:
    """The only device is kept from others until it is clean."""
    device = farm.device()
    assert device.health == "bad", device.health_reason
    assert "not cleaned" in str(device.health_reason)


def clean_again(farm: RealFarm) -> None:
    """The device is in use again, and nothing is left on it but the push cache."""
    farm.ready(1)
    assert farm.open_leases() == 0
    assert farm.device().health == "good"
    assert set(farm.shell("ls -A /data/local/tmp").split()) <= {"farm"}
    assert set(farm.shell("ls -A /data/local/tmp/farm").split()) <= {"cas", "b"}
    assert "sleep 1000" not in farm.shell("ps -A -o ARGS")


def test_a_device_that_is_unplugged_for_a_while_is_tried_again(patient_farm: RealFarm) -> None:
    farm = patient_farm
    run = farm.submit(suites=("steady",))
    farm.underway(run)
    farm.fault("V1", "unplug", for_s=5)
    assert farm.ended(run) == "passed", farm.story(run)
    assert farm.passed(run) == Counter(STEPS)
    first, *_, last = farm.attempts(run)
    assert (first.outcome, last.outcome) == ("device-lost", "passed"), first.reason
    clean_again(farm)


def test_a_device_that_is_gone_for_good_ends_the_run_with_words_and_is_kept_from_others(farm: RealFarm) -> None:
    run = farm.submit(suites=("steady",))
    farm.underway(run)
    farm.fault("V1", "unplug")
    assert farm.ended(run) == "device-lost"
    assert "did not come back" in reasons(farm)
    quarantined(farm)
    [first, *_] = farm.attempts(run)
    assert {"journal.jsonl", "logcat.zst"} <= set(farm.artifacts_of(first.id))
    farm.fault("V1", "replug")
    clean_again(farm)


def test_unplugged_in_the_middle_of_a_push_the_next_attempt_pushes_the_rest(patient_farm: RealFarm) -> None:
    farm = patient_farm
    run = farm.submit()
    farm.reached(run, "precheck")
    farm.fault("V1", "slow-shell", delay_ms=SLOW_MS)
    farm.reached(run, "deploy")
    farm.fault("V1", "unplug", for_s=5)
    farm.fault("V1", "slow-shell", delay_ms=0)
    assert farm.ended(run) == "passed", farm.story(run)
    first, *_, last = farm.attempts(run)
    assert (first.outcome, last.outcome) == ("device-lost", "passed"), first.reason
    assert farm.tests(first.id) == {}
    clean_again(farm)
    assert farm.shell("find /data/local/tmp/farm -name '*.part'") == ""


def test_unplugged_while_it_cools_it_is_lost_and_comes_back_clean(farm: RealFarm) -> None:
    farm.fault("V1", "heat", to_c=75)
    run = farm.submit()
    farm.reached(run, "settle")
    farm.fault("V1", "unplug")
    assert farm.ended(run) == "device-lost", farm.story(run)
    assert "did not come back" in reasons(farm)
    quarantined(farm)
    farm.fault("V1", "heat", watts=0)
    farm.fault("V1", "replug")
    clean_again(farm)


def test_unplugged_while_it_is_collected_from_the_run_has_passed_and_only_the_device_waits(farm: RealFarm) -> None:
    run = farm.submit()
    farm.underway(run)
    farm.fault("V1", "slow-shell", delay_ms=SLOW_MS)
    farm.reached(run, "collect")
    farm.fault("V1", "unplug")
    farm.fault("V1", "slow-shell", delay_ms=0)
    assert farm.ended(run) == "passed", farm.story(run)
    [attempt] = farm.attempts(run)
    assert {"journal.jsonl", "logcat.zst", "left.txt"} <= set(farm.artifacts_of(attempt.id))
    quarantined(farm)
    farm.fault("V1", "replug")
    clean_again(farm)
