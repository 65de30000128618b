"""The short summary of a run: each test once, medians of clean values, and what is marked is said to be."""

from __future__ import annotations

from typing import Any

from farm.cli.summary import believable, exit_code, summary

DEVICE = {"id": 1, "serial": "s", "name": "d", "virtual": True}


def detail(measurements: list[dict[str, Any]], cells: list[dict[str, Any] | None]) -> dict[str, Any]:
    """A run with one job whose second attempt ended it."""
    attempts = [{"id": 1, "device": DEVICE, "reason": "lost"}, {"id": 2, "device": DEVICE, "reason": None}]
    job = {"id": 7, "device": DEVICE, "outcome": "passed", "wait_reason": None, "attempts": attempts}
    return {
        "run": {"id": 3, "title": "t", "state": "ended", "outcome": "passed"},
        "jobs": [job],
        "matrix": {
            "columns": [{"job_id": 7}],
            "rows": [{"test_id": str(number), "cells": [cell]} for number, cell in enumerate(cells)],
        },
        "measurements": measurements,
        "incidents": [{"attempt_id": 1, "klass": "crash", "summary": "SIGSEGV", "test_id": "0"}],
    }


def measurement(attempt: int, values: list[float], marks: list[str | None]) -> dict[str, Any]:
    return {"attempt_id": attempt, "name": "rate", "unit": "tok/s", "values": values, "marks": marks}


def only(measurements: list[dict[str, Any]]) -> dict[str, Any]:
    attempt: dict[str, Any] = summary(detail(measurements, []))["attempts"][0]
    return dict(attempt["medians"]["rate"])


def test_tests_are_counted_once_and_open_ones_not_at_all() -> None:
    cells = [{"outcome": "passed"}, {"outcome": "failed"}, None, {"outcome": None}, {"outcome": "skipped"}]
    attempt = summary(detail([], cells))["attempts"][0]
    assert attempt["tests"] == {"passed": 1, "failed": 1, "skipped": 1, "error": 0}
    assert (attempt["attempt"], attempt["tries"]) == (2, 2)
    assert attempt["incidents"] == [{"class": "crash", "summary": "SIGSEGV", "test": "0"}]


def test_the_median_is_of_clean_values_over_all_attempts() -> None:
    entry = only([measurement(1, [9.0, 1.0], ["warmup", None]), measurement(2, [3.0, 5.0], [None, None])])
    assert (entry["median"], entry["n"], believable(entry)) == (3.0, 3, (3.0, ()))


def test_values_that_are_all_marked_are_shown_with_their_marks() -> None:
    entry = only([measurement(2, [9.0, 1.0, 3.0], ["warmup", "disturbed", "throttled"])])
    assert entry["median"] is None
    assert believable(entry) == (2.0, ("disturbed", "throttled"))


def test_warm_up_alone_is_not_measured() -> None:
    assert believable(only([measurement(2, [9.0], ["warmup"])])) == (None, ())


def test_an_outcome_has_its_exit_code_and_none_is_the_farms_trouble() -> None:
    assert [exit_code(outcome) for outcome in ("passed", "crashed", "infra-error", "refused", "cancelled", None)] == [
        0, 1, 2, 3, 5, 2,
    ]  # fmt: skip
