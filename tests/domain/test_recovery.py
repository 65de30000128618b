"""The recovery ladder: every rung is bounded, every action is taken once, and it always ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farm.domain.devices import Connection
from farm.domain.recovery import LONGEST, Recovery, Rung, Sight, advice, begin, decide, resume

T = datetime(2026, 1, 1, tzinfo=UTC)
GONE = Sight(Connection.GONE)
OFFLINE = Sight(Connection.OFFLINE)
DEAF = Sight(Connection.ONLINE, answers=False, problem="its shell does not answer")
BOOTING = Sight(Connection.ONLINE, answers=True, booted=False, problem="it has not finished booting")
WELL = Sight(Connection.ONLINE, answers=True, booted=True)


def climb(seen: Sight, *, power: bool = False, limit_s: int = 2000) -> list[tuple[int, Rung]]:
    """(second, rung) of every rung while the device stays like this."""
    at = begin("lost", T)
    rungs = [(0, at.rung)]
    for second in range(limit_s):
        after = decide(at, seen, T + timedelta(seconds=second), can_power_cycle=power)
        if after is not at:
            rungs.append((second, after.rung))
        at = after
        if at.rung.is_last:
            break
    return rungs


def test_a_device_that_is_back_at_once_needs_no_rung() -> None:
    assert climb(WELL) == [(0, Rung.SETTLE), (0, Rung.RECOVERED)]


def test_an_absent_device_is_waited_for_then_its_port_is_cycled_once_then_a_person_is_asked() -> None:
    assert climb(GONE, power=True) == [
        (0, Rung.SETTLE), (5, Rung.ONLINE), (65, Rung.POWER_CYCLE), (66, Rung.ONLINE), (126, Rung.GIVEN_UP),
    ]  # fmt: skip
    assert climb(GONE) == [(0, Rung.SETTLE), (5, Rung.ONLINE), (65, Rung.GIVEN_UP)]


def test_a_deaf_device_is_rebooted_once_and_then_given_up() -> None:
    assert climb(DEAF) == [
        (0, Rung.SETTLE), (5, Rung.SHELL), (35, Rung.REBOOT), (36, Rung.ONLINE), (37, Rung.SHELL), (67, Rung.GIVEN_UP),
    ]  # fmt: skip


def test_a_boot_that_does_not_end_gets_four_minutes_then_a_reboot_then_the_power_switch() -> None:
    rungs = [rung for _, rung in climb(BOOTING, power=True)]
    assert rungs == [
        Rung.SETTLE, Rung.SHELL, Rung.BOOT, Rung.REBOOT, Rung.ONLINE, Rung.SHELL, Rung.BOOT, Rung.POWER_CYCLE,
        Rung.ONLINE, Rung.SHELL, Rung.BOOT, Rung.GIVEN_UP,
    ]  # fmt: skip


def test_an_offline_transport_is_made_anew_and_a_bootloader_is_left() -> None:
    assert climb(OFFLINE)[:3] == [(0, Rung.SETTLE), (5, Rung.RECONNECT), (6, Rung.ONLINE)]
    assert climb(Sight(Connection.BOOTLOADER))[1] == (5, Rung.LEAVE_BOOTLOADER)


def test_what_only_a_person_can_mend_is_given_up_at_once_with_the_remedy() -> None:
    seen = Sight(Connection.UNAUTHORIZED)
    assert climb(seen) == [(0, Rung.SETTLE), (5, Rung.GIVEN_UP)]
    assert "accept the key" in advice(seen, begin("x", T), can_power_cycle=False)
    assert "power_cycle" in advice(GONE, begin("x", T), can_power_cycle=False)
    assert "power_cycle" not in advice(GONE, begin("x", T), can_power_cycle=True)


def test_what_was_tried_is_told_when_it_is_given_up() -> None:
    at = begin("lost", T)
    for second in range(200):
        at = decide(at, DEAF, T + timedelta(seconds=second), can_power_cycle=False)
    assert at.why == "its shell does not answer; tried: reboot"


def test_a_recovery_that_a_restart_interrupted_goes_on_at_its_rung() -> None:
    history = [(T, "settle", "lost"), (T + timedelta(seconds=5), "online", "adb does not list it")]
    at = resume(history)
    assert at == Recovery(T, Rung.ONLINE, T + timedelta(seconds=5), frozenset(), "adb does not list it")
    ended = [*history, (T + timedelta(seconds=9), "recovered", "it answers")]
    assert resume(ended) is None
    again = [*ended, (T + timedelta(hours=1), "settle", "lost again"), (T + timedelta(hours=2), "reboot", "deaf")]
    at = resume(again)
    assert at is not None
    assert (at.began, at.done) == (T + timedelta(hours=1), frozenset({Rung.REBOOT}))
    assert resume([(T, "of-a-newer-farm", "")]) is None


sights = st.builds(
    Sight, st.sampled_from(Connection), st.none() | st.booleans(), st.none() | st.booleans(), st.just("")
)


@given(st.lists(st.tuples(sights, st.integers(1, 90)), min_size=60, max_size=120), st.booleans())
def test_every_recovery_ends_in_time_and_takes_no_action_twice(seen: list[tuple[Sight, int]], power: bool) -> None:
    at, now = begin("lost", T), T
    acted: list[Rung] = []
    for sight, seconds in seen:
        now += timedelta(seconds=seconds)
        after = decide(at, sight, now, can_power_cycle=power)
        if after is not at and after.rung.acts:
            acted.append(after.rung)
        at = after
        if at.rung.is_last:
            assert decide(at, sight, now, can_power_cycle=power) is at
        else:
            assert now - at.began < LONGEST
    assert len(acted) == len(set(acted))
    assert power or Rung.POWER_CYCLE not in acted
    if now - T >= LONGEST:
        assert at.rung.is_last


@given(st.lists(st.tuples(sights, st.integers(1, 90)), max_size=60))
def test_what_the_history_rebuilds_is_where_the_recovery_stood(seen: list[tuple[Sight, int]]) -> None:
    at, now = begin("lost", T), T
    history = [(T, at.rung.value, at.why)]
    for sight, seconds in seen:
        now += timedelta(seconds=seconds)
        after = decide(at, sight, now, can_power_cycle=True)
        if after is not at:
            history.append((now, after.rung.value, after.why))
        at = after
    assert resume(history) == (None if at.rung.is_last else at)
