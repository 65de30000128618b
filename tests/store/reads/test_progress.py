"""How far a job is: over all its tries, ended tests alone, and never back without a lost device that explains it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farm.store import tables as t
from farm.store.reads.progress import Progress, progress, runs_again, total
from farm.store.reads.results import TestCell, result_word

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KNOWN = tuple(f"t{number}" for number in range(8))


def job(state: str = "running") -> t.Job:
    return t.Job(id=1, state=state)


def attempt(number: int, outcome: str | None = None, *, closed: bool = False) -> t.Attempt:
    return t.Attempt(id=number, number=number, device_id=1, outcome=outcome, ended_at=NOW if closed else None)


def cells(attempt: int, names: tuple[str, ...], *ends: str) -> list[TestCell]:
    """Those tests of which the first ended so: `passed`, or `error:device-lost` with its cause."""
    said = [end.partition(":") for end in ends] + [("", "", "")] * (len(names) - len(ends))
    return [
        TestCell(attempt, name, outcome or None, cause or None, bool(outcome), None, None)
        for name, (outcome, _, cause) in zip(names, said, strict=True)
    ]


def test_nothing_collected_is_unknown_and_not_zero() -> None:
    assert progress(job("queued"), [], {}) == Progress(0, None)
    assert progress(job(), [attempt(1)], {}) == Progress(0, None)
    assert total([Progress(0, None), Progress(2, 5)]) == Progress(2, 5)
    assert total([Progress(0, None)]) == Progress(0, None)


def test_tests_that_never_ran_are_not_done_however_the_job_ended() -> None:
    hung = {1: cells(1, KNOWN[:3], "passed", "failed:timed-out")}
    for outcome in (None, "timed-out"):
        assert progress(job(), [attempt(1, outcome)], hung) == Progress(2, 3)
    assert progress(job("ended"), [attempt(1, "timed-out", closed=True)], hung) == Progress(2, 3)


def test_a_lost_device_takes_back_no_finished_test() -> None:
    """From the third test's loss to the last test of the second try."""
    first = cells(1, KNOWN, "passed", "passed", "passed", "error:device-lost")
    rest = KNOWN[3:]
    lost = attempt(1, "device-lost", closed=True)
    seen = [
        progress(job(), [attempt(1)], {1: first}),
        progress(job(), [attempt(1, "device-lost")], {1: first}),
        progress(job("queued"), [lost], {1: first}),
        progress(job(), [lost, attempt(2)], {1: first}),
        progress(job(), [lost, attempt(2)], {1: first, 2: cells(2, rest)}),
        progress(job(), [lost, attempt(2)], {1: first, 2: cells(2, rest, "passed", "failed:crashed")}),
        progress(
            job("ended"), [lost, attempt(2, "crashed", closed=True)], {1: first, 2: cells(2, rest, *["passed"] * 5)}
        ),
    ]
    assert seen == [Progress(done, 8) for done in (3, 3, 3, 3, 3, 5, 8)]


def test_what_a_try_with_another_end_had_done_is_not_carried_into_the_next() -> None:
    failed = attempt(1, "deploy-failed", closed=True)
    assert progress(job("queued"), [failed], {1: cells(1, KNOWN, "passed")}) == Progress(0, 8)


@pytest.mark.parametrize(
    ("state", "outcome", "closed", "again"),
    [
        ("running", "device-lost", False, True),
        ("running", "timed-out", False, False),
        ("queued", "device-lost", True, True),
        ("ended", "device-lost", True, False),
        ("running", "of-a-newer-farm", False, True),
    ],
)
def test_whether_a_later_try_runs_the_rest(state: str, outcome: str, closed: bool, again: bool) -> None:
    assert runs_again(job(state), attempt(1, outcome, closed=closed)) is again


def test_a_test_has_one_word() -> None:
    assert result_word("ended", "failed", "timed-out") == "timed-out"
    assert result_word("ended", "failed", None) == "failed"
    assert result_word("ended", "error", "hung") == "hung"
    assert result_word("ended", "passed", None) == "passed"
    assert result_word("not-run", None, None) == "not-run"


def test_what_waits_for_a_next_try_waits_and_what_waits_for_none_was_not_run() -> None:
    [began, waits] = cells(1, KNOWN[:2])
    began = TestCell(1, "t0", None, None, True, None, None)
    assert [began.state(True), waits.state(True)] == ["unfinished", "not-run"]
    assert [began.state(True, True), waits.state(True, True)] == ["waiting", "waiting"]
    assert [began.state(False), waits.state(False)] == ["running", "waiting"]
