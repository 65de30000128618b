"""Battery, heat and storage: with memory between readings, and never stopped by what was not measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farm.domain import readiness
from farm.domain.devices import Readiness, why_not_ready

T = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_a_battery_that_fell_too_low_must_be_charged_to_eighty_before_work_starts_again() -> None:
    since = None
    for minute, (pct, waits) in enumerate([(21, False), (19, True), (20, True), (79, True), (80, False), (21, False)]):
        since = readiness.low_since(pct, True, since, T + minute * MINUTE)
        assert (since is not None) is waits, pct


def test_a_board_without_a_battery_is_never_low_and_a_missing_reading_changes_nothing() -> None:
    assert readiness.low_since(0, False, T, T) is None
    assert readiness.low_since(None, True, T, T + MINUTE) == T
    assert readiness.low_since(None, True, None, T) is None


def test_heat_must_last_a_quarter_of_an_hour_and_is_over_five_degrees_below() -> None:
    since = readiness.hot_since(45.0, True, None, T)
    assert not readiness.is_held_hot(since, T + 14 * MINUTE)
    assert readiness.is_held_hot(since, T + 15 * MINUTE)
    assert readiness.hot_since(44.0, True, since, T + 5 * MINUTE) is None
    assert readiness.hot_since(44.0, True, since, T + 16 * MINUTE) == T
    assert readiness.hot_since(40.0, True, since, T + 16 * MINUTE) is None


def test_a_chip_runs_warmer_than_a_battery_may() -> None:
    assert readiness.hot_since(60.0, False, None, T) is None
    assert readiness.hot_since(60.0, None, None, T) is None
    assert readiness.hot_since(85.0, False, None, T) == T


def test_what_keeps_a_device_from_work_is_said_with_its_figure() -> None:
    held = Readiness(temperature_c=47.2, has_battery=True, hot_since=T - timedelta(minutes=20))
    assert "now 47 °C" in str(why_not_ready(held, T))
    low = Readiness(has_battery=True, battery_pct=35, low_since=T)
    assert "goes on at 80 % (now 35 %)" in str(why_not_ready(low, T))
    full = Readiness(free_bytes=12_300_000)
    assert "12.3 MB" in str(why_not_ready(full, T))
    assert why_not_ready(Readiness(), T) is None
    assert why_not_ready(Readiness(boot_completed=False), T) == "still booting"


def test_a_wrong_clock_and_a_full_battery_are_warnings_with_figures() -> None:
    assert readiness.warnings(-7.25, None) == ["its clock is -7.2 s off its host's (more than 5 s): set it"]
    assert readiness.warnings(5.0, 80) == []
    assert "97 %" in readiness.warnings(None, 97)[0]


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 30)), max_size=30))
def test_a_device_below_its_limit_by_five_degrees_is_never_held(readings: list[tuple[float, int]]) -> None:
    since, now = None, T
    for celsius, minutes in readings:
        now += minutes * MINUTE
        since = readiness.hot_since(celsius, True, since, now)
        if celsius <= readiness.HOT_C - readiness.COOLED_BY_C:
            assert since is None


def test_a_host_with_too_little_room_says_how_much_and_where_and_one_that_is_not_measured_says_nothing() -> None:
    def words(free_bytes: int) -> str | None:
        return readiness.host_words(free_bytes, "/farm/attempts", 256_000_000)

    assert words(246_300_000) == "about 240 MB are free in /farm/attempts, below 256 MB: free some"
    assert words(246_300_000) == words(240_000_000)
    assert words(9_999_999) == words(0) == "less than 10 MB are free in /farm/attempts, below 256 MB: free some"
    assert readiness.host_words(256_000_000, "/farm/attempts", 256_000_000) is None
    assert readiness.host_words(None, "/farm/attempts", 256_000_000) is None
