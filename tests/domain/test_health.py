"""Strikes: the rest doubles, then the quarantine does; a person's word stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from farm.domain import health
from farm.domain.devices import Health

T = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_rest_doubles_with_each_strike_and_then_the_quarantine_does_up_to_two_hours() -> None:
    strikes, rests = 0, []
    for _ in range(12):
        standing = health.after_strike(strikes, "spoilt")
        assert standing.rest is not None
        strikes = standing.strikes
        rests.append((standing.health, standing.rest.total_seconds()))
    assert rests[:3] == [(Health.SUSPECT, 2.0), (Health.SUSPECT, 4.0), (Health.SUSPECT, 8.0)]
    assert [seconds for kind, seconds in rests[3:9] if kind is Health.BAD] == [300, 600, 1200, 2400, 4800, 7200]
    assert rests[-1] == (Health.BAD, 7200.0)
    assert health.after_strike(10_000, "x").rest == timedelta(hours=2)


def test_a_quarantine_says_how_many_strikes_and_the_last_one() -> None:
    standing = health.after_strike(3, "attempt 7 ended device-lost", "check the cable")
    assert standing.reason == "4 strikes in a row, the last: attempt 7 ended device-lost"
    assert standing.action == "check the cable"


def test_giving_up_on_a_recovery_is_a_quarantine_at_once() -> None:
    assert health.after_giving_up(0, "no answer", "restart it").rest == timedelta(minutes=5)
    assert health.after_giving_up(4, "no answer", "restart it").rest == timedelta(minutes=10)


def test_a_good_look_ends_doubt_and_a_quarantine_whose_time_is_over_and_nothing_else() -> None:
    assert health.is_over(Health.SUSPECT, None, T)
    assert not health.is_over(Health.SUSPECT, T + timedelta(seconds=1), T)
    assert health.is_over(Health.BAD, T, T)
    assert not health.is_over(Health.BAD, None, T)
    assert not health.is_over(Health.MAINTENANCE, T, T)


def test_strikes_are_forgotten_after_an_hour_in_good_health() -> None:
    assert health.strikes_after_good(3, T, T + timedelta(minutes=59)) == 3
    assert health.strikes_after_good(3, T, T + timedelta(hours=1)) == 0
    assert health.strikes_after_good(3, None, T) == 3


def test_every_problem_has_advice() -> None:
    assert "restart" in health.advice("its system server does not answer within 5 s")
    assert "key" in health.advice("unauthorized")
    assert health.advice("something new")
