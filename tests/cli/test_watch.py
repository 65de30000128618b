"""What the live output says of a run, in particular of one whose device went away."""

from __future__ import annotations

from typing import Any

import pytest

from farm.cli.watch import Lines, progress_of

DEVICE = {"name": "d", "serial": "s", "virtual": True}


def attempt(
    number: int, outcome: str | None = None, retry: str | None = None, *, phase: str = "", waits: str | None = None
) -> dict[str, Any]:
    return {
        "id": 10 + number, "number": number, "device": DEVICE, "phase": phase or ("done" if outcome else "execute"),
        "outcome": outcome, "retry_reason": retry, "retried": retry is not None, "waiting_for": waits,
    }  # fmt: skip


def run(
    state: str, done: int, known: int | None, *attempts: dict[str, Any], outcome: str | None = None
) -> dict[str, Any]:
    job = {
        "id": 1, "ordinal": 0, "device": DEVICE, "state": state, "outcome": outcome, "wait_reason": "a device",
        "progress": {"done": done, "known": known}, "attempts": list(attempts),
    }  # fmt: skip
    return {"jobs": [job]}


def test_a_lost_device_is_told_once_with_its_reason_and_takes_nothing_back(capsys: pytest.CaptureFixture[str]) -> None:
    lost = attempt(1, "device-lost", "the device went away (adb does not list it)")
    show = Lines()
    for detail in (
        run("running", 0, None, attempt(1)),
        run("running", 3, 8, attempt(1)),
        run("running", 3, 8, attempt(1, "device-lost", phase="clean", waits="d to come back")),
        run("queued", 3, 8, lost),
        run("running", 3, 8, lost, attempt(2)),
        run("running", 5, 8, lost, attempt(2)),
        run("ended", 8, 8, lost, attempt(2, "passed"), outcome="passed"),
    ):
        show(detail)
    said = [line.split(" s  ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "d: execute",
        "d: execute 3/8 tests",
        "d: clean after device-lost 3/8 tests (d to come back)",
        "d: try 1 ended device-lost: the device went away (adb does not list it); tried again",
        "d: queued 3/8 tests (job 1: a device)",
        "d: execute 3/8 tests",
        "d: execute 5/8 tests",
        "d: passed 8/8 tests",
    ]


def test_tests_that_are_not_collected_yet_are_no_zero() -> None:
    [row] = progress_of(run("queued", 0, None))
    assert (row["done"], row["total"], row["waits"]) == (0, None, "job 1: a device")


def test_what_is_waited_for_is_told_once_however_its_figures_change(capsys: pytest.CaptureFixture[str]) -> None:
    show = Lines()
    for heat in ("47.1", "46.3", "45.9"):
        show(run("running", 0, None, attempt(1, phase="settle", waits=f"d to cool to 45 °C (now {heat} °C)")))
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("d: settle (d to cool to 45 °C (now 47.1 °C))")
