"""How long a device may be silent: longer on a host that is too busy to hear it, and never for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.adb import deadline
from farm.adb.deadline import STRETCH, Deadline, Patience
from farm.evidence.pressure import fair_s


class Clock:
    """Time and pressure of a host as the test wants them."""

    def __init__(self, folder: Path) -> None:
        self.now, self.stalled_s, self.file = 100.0, 7.0, folder / "cpu"
        self.write()

    def write(self) -> None:
        self.file.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={round(self.stalled_s * 1e6)}\n")

    def pass_by(self, seconds: float, waited: float) -> None:
        """So many seconds, in that share of which somebody waited for a CPU."""
        self.now += seconds
        self.stalled_s += seconds * waited
        self.write()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(tmp_path)
    monkeypatch.setattr(deadline.time, "monotonic", lambda: made.now)
    monkeypatch.setattr(deadline, "_PRESSURE", made.file)
    return made


def test_on_a_host_with_time_to_spare_a_limit_is_a_limit(clock: Clock) -> None:
    limit = Patience(20)
    clock.pass_by(19, waited=0.0)
    assert (limit.remaining(), limit.expired) == (1.0, False)
    clock.pass_by(1, waited=0.0)
    assert (limit.remaining(), limit.expired, limit.words) == (0.0, True, "20 s")


def test_time_that_the_host_did_not_give_counts_for_a_part(clock: Clock) -> None:
    limit = Patience(20)
    clock.pass_by(20, waited=0.5)
    assert not limit.expired
    assert limit.remaining() == pytest.approx(7.5)
    clock.pass_by(7.5, waited=0.0)
    assert limit.expired
    assert limit.words == "28 s (20 s on a host that is not this busy)"


def test_a_silent_device_is_found_on_the_busiest_host(clock: Clock) -> None:
    limit, looks = Patience(20), 0
    while not limit.expired:
        clock.pass_by(1, waited=1.0)
        looks += 1
    assert looks == 20 * STRETCH


def test_where_the_kernel_does_not_tell_seconds_are_seconds(clock: Clock) -> None:
    clock.file.unlink()
    limit = Patience(20)
    clock.pass_by(20, waited=1.0)
    assert limit.expired


def test_no_end_is_no_end(clock: Clock) -> None:
    for limit in (Deadline(None), Patience(None)):
        clock.pass_by(1e6, waited=0.0)
        assert (limit.remaining(), limit.remaining(5.0), limit.expired) == (None, 5.0, False)


def test_pressure_that_makes_no_sense_gives_no_more_than_it_could() -> None:
    assert fair_s(10, 1e9, 4) == 2.5
    assert fair_s(10, -3, 4) == fair_s(10, None, 4) == 10
