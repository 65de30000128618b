"""Whose turn it is: who measures alone, who shares the machine, and that nobody is passed for ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runner.turns import Need, NoTurn, Turn, Turns
from tests.waiting import eventually


def now(turns: Turns, need: Need) -> Turn | None:
    """A turn that is there at once, or none."""
    return turns.take(need, 0.0, "a test")


def test_tests_that_do_not_measure_share_the_machine(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    held = [now(turns, Need.SHARE) for _ in range(3)]
    assert all(held)
    assert now(turns, Need.ALONE) is None
    for turn in held:
        assert turn is not None
        turn.release()
    alone = now(turns, Need.ALONE)
    assert alone is not None
    alone.release()


def test_while_a_virtual_device_measures_nothing_else_runs_and_no_real_device_measures(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    alone = now(turns, Need.ALONE)
    assert alone is not None
    assert [now(turns, need) for need in (Need.SHARE, Need.ALONE, Need.SLOT)] == [None, None, None]
    nothing = now(turns, Need.NOTHING)
    assert nothing is not None, "a test on a real device that measures nothing needs no turn"
    alone.release()


def test_real_devices_measure_side_by_side_as_the_hosts_slots_say(tmp_path: Path) -> None:
    turns = Turns(tmp_path, slots=2)
    first, second = now(turns, Need.SLOT), now(turns, Need.SLOT)
    assert first is not None
    assert second is not None
    assert now(turns, Need.SLOT) is None
    shared = now(turns, Need.SHARE)
    assert shared is not None, "a real device's measuring leaves the host's CPUs to others"
    first.release()
    assert now(turns, Need.SLOT) is not None


def test_a_turn_that_does_not_come_leaves_nothing_behind(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    shared = now(turns, Need.SHARE)
    assert shared is not None
    assert now(turns, Need.ALONE) is None
    assert now(turns, Need.SLOT) is not None
    assert now(turns, Need.SHARE) is not None


def test_who_waits_to_measure_is_passed_by_nobody(tmp_path: Path) -> None:
    """Sharers come and go without a gap; the one who wants to be alone gets its turn all the same."""
    turns = Turns(tmp_path)
    first = now(turns, Need.SHARE)
    assert first is not None
    measured: list[Turn | None] = []

    def is_passed() -> bool:
        turn = now(turns, Need.SHARE)
        if turn is not None:
            turn.release()
        return turn is not None

    waiter = threading.Thread(target=lambda: measured.append(turns.take(Need.ALONE, 60.0, "who measures")))
    waiter.start()
    try:
        eventually(lambda: not is_passed(), what="new sharers to queue behind the one who measures")
    finally:
        first.release()
        waiter.join(60)
    assert measured[0] is not None
    measured[0].release()
    shared = now(turns, Need.SHARE)
    assert shared is not None


def test_a_long_wait_is_told_once_with_the_process_that_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.turns.WAIT_S", 0.3)
    monkeypatch.setattr("runner.turns.LONG_S", 0.05)
    turns, said = Turns(tmp_path), []
    shared = turns.take(Need.SHARE, 0.0, "attempt 7 of the farm in /x")
    assert shared is not None
    with pytest.raises(NoTurn, match="to measure alone"):
        turns.wait(Need.ALONE, "a test", said.append)
    assert len(said) == 1
    assert said[0].startswith("waits to measure alone: pid ")
    assert "(attempt 7 of the farm in /x)" in said[0]
