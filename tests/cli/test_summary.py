"""The short summary of a run: each test once, medians of clean values, and what is marked is said to be."""

from __future__ import annotations

from typing import Any

from farm.cli.summary import believable, exit_code, exit_words, retry_words, summary

DEVICE = {"id": 1, "serial": "s", "name": "d", "virtual": True}


def detail(measurements: list[dict[str, Any]], cells: list[dict[str, Any] | None]) -> dict[str, Any]:
    """A run with one job whose second attempt ended it."""
    lost = "the device went away (lost)"
    attempts = [
        {
            "id": 1,
            "number": 1,
            "device": DEVICE,
            "outcome": "device-lost",
            "reason": "lost",
            "retry_reason": lost,
            "retried": True,
            "words": "the device went away",
            "blame": "device",
        },
        {
            "id": 2,
            "number": 2,
            "device": DEVICE,
            "outcome": "passed",
            "reason": None,
            "retry_reason": None,
            "retried": False,
            "words": "every test passed",
            "blame": "nobody",
        },
    ]
    job = {"id": 7, "device": DEVICE, "outcome": "passed", "wait_reason": None, "attempts": attempts}
    job["progress"] = {"done": 3, "known": 5}
    return {
        "run": {"id": 3, "title": "t", "state": "ended", "outcome": "passed", "cancel_by": None},
        "jobs": [job],
        "matrix": {
            "columns": [{"job_id": 7}],
            "rows": [{"test_id": str(number), "cells": [cell]} for number, cell in enumerate(cells)],
        },
        "measurements": measurements,
        "incidents": [{"attempt_id": 1, "klass": "crash", "summary": "SIGSEGV", "test_id": "0", "count": 1}],
        "incident_counts": {"1": {"crash": 1, "sandbox-refused": 40}, "2": {"sandbox-refused": 2}, "99": {"crash": 5}},
    }


def cell(outcome: str | None, state: str = "ended", result: str | None = None) -> dict[str, Any]:
    return {"outcome": outcome, "state": state, "result": result or outcome or state, "message": "m"}


def measurement(attempt: int, values: list[float], marks: list[str | None]) -> dict[str, Any]:
    return {"attempt_id": attempt, "name": "rate", "unit": "tok/s", "values": values, "marks": marks}


def only(measurements: list[dict[str, Any]]) -> dict[str, Any]:
    attempt: dict[str, Any] = summary(detail(measurements, []))["attempts"][0]
    return dict(attempt["medians"]["rate"])


def test_tests_are_counted_once_and_those_that_never_ran_are_told_apart() -> None:
    cells = [cell("passed"), cell("failed", result="timed-out"), None, cell(None, "not-run"), cell("skipped")]
    attempt = summary(detail([], cells))["attempts"][0]
    assert attempt["tests"] == {"passed": 1, "failed": 1, "skipped": 1, "error": 0, "not-run": 1}
    assert attempt["failures"] == [{"test": "1", "result": "timed-out", "message": "m"}]
    assert (attempt["attempt"], attempt["tries"], attempt["progress"]) == (2, 2, {"done": 3, "known": 5})


def test_every_incident_counts_however_few_of_them_are_listed() -> None:
    attempt = summary(detail([], []))["attempts"][0]
    assert attempt["incidents"] == [{"class": "crash", "summary": "SIGSEGV", "test": "0", "count": 1}]
    assert attempt["incident_counts"] == {"crash": 1, "sandbox-refused": 42}


def test_a_retry_has_its_reason_in_the_summary_and_in_a_sentence() -> None:
    made = detail([], [])
    [retry] = summary(made)["attempts"][0]["retries"]
    assert (retry["try"], retry["outcome"], retry["reason"]) == (1, "device-lost", "the device went away (lost)")
    words = retry_words(made["jobs"][0]["attempts"][0])
    assert words == "d: try 1 ended device-lost: the device went away (lost); tried again"
    words = retry_words(made["jobs"][0]["attempts"][0] | {"retried": False})
    assert words.endswith("; waits to be tried again")


def test_a_job_that_waits_to_be_tried_again_says_what_it_waits_for_and_one_that_ended_how() -> None:
    made = detail([], [])
    [job] = made["jobs"]
    job["attempts"] = job["attempts"][:1]
    job |= {"outcome": None, "wait_reason": "position 1 of 1: d is stale (its host lab-2 is away since 14:05 UTC)"}
    assert summary(made)["attempts"][0]["reason"] == job["wait_reason"]
    job |= {"outcome": "device-lost", "wait_reason": "d did not come back within 120 s after 1 try"}
    assert summary(made)["attempts"][0]["reason"] == job["wait_reason"]
    job |= {"wait_reason": None}
    assert summary(made)["attempts"][0]["reason"] == "lost"


def test_figures_without_a_clean_value_come_with_the_warning_not_to_compare_them() -> None:
    short = summary(detail([measurement(2, [9.0, 1.0, 3.0], ["warmup", "disturbed", "disturbed"])], []))
    assert short["comparable"] is False
    assert short["warnings"] == ["Do not compare d's rate: every value is marked disturbed"]
    some = summary(detail([measurement(2, [1.0, 3.0], ["disturbed", None])], []))
    assert (some["comparable"], some["warnings"]) == (True, [])
    assert summary(detail([], []))["comparable"] is None, "nothing was measured"


def test_a_command_that_fails_says_why_in_a_sentence() -> None:
    short = summary(detail([], []))
    assert exit_words(short) == ""
    short["outcome"] = short["attempts"][0]["outcome"] = "crashed"
    short["attempts"][0]["words"] = "the engine crashed"
    assert exit_words(short) == "Exit code 1 (failed): run 3 ended crashed on d: the engine crashed."
    short["outcome"] = short["attempts"][0]["outcome"] = "infra-error"
    short["attempts"][0]["words"] = "the host failed: the runner died"
    assert exit_words(short).endswith("ended infra-error on d: the host failed: the runner died.")
    short["outcome"] = None
    assert exit_words(short).startswith("Exit code 2 (farm trouble)")


def test_a_cancelled_run_is_told_with_who_did_it_and_in_which_step() -> None:
    made = detail([], [])
    made["run"] |= {"outcome": "cancelled", "cancel_by": "mia"}
    [job] = made["jobs"]
    job |= {"outcome": "cancelled", "wait_reason": "cancelled"}
    job["attempts"][-1] |= {"outcome": "cancelled", "words": "cancelled", "reason": "cancelled during deploy"}
    said = "Exit code 5 (cancelled): run 3 ended cancelled on d: cancelled by mia during deploy."
    assert exit_words(summary(made)) == said
    made["run"]["cancel_by"] = None
    assert exit_words(summary(made)).endswith(" on d: cancelled during deploy.")
    job |= {"attempts": [], "wait_reason": "cancelled by mia while it waited"}
    made["run"]["cancel_by"] = "mia"
    assert exit_words(summary(made)).endswith(": cancelled by mia while it waited.")


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
