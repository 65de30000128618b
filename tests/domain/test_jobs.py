"""Retries and the outcome of a job: farm trouble is never red, and red is never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.jobs import AttemptEnd, TestEnd, carried, decide, job_outcome, limits_of, settle_of
from farm.domain.outcomes import MEANING, Colour, Outcome, TestOutcome


def end(outcome: Outcome, *tests: TestEnd, device: int = 1) -> AttemptEnd:
    return AttemptEnd(outcome, device, outcome.value, tests)


PASS = TestEnd("t1", TestOutcome.PASSED)
FAIL = TestEnd("t2", TestOutcome.FAILED)
CRASH = TestEnd("t3", TestOutcome.FAILED, Outcome.CRASHED)
LOST = TestEnd("t4", TestOutcome.FAILED, Outcome.DEVICE_LOST)


def test_a_lost_device_is_tried_again_elsewhere_twice_and_then_ends_the_job() -> None:
    first = decide([end(Outcome.DEVICE_LOST, device=7)])
    assert first.retry
    assert first.avoid == (7,)
    assert decide([end(Outcome.DEVICE_LOST), end(Outcome.DEVICE_LOST)]).retry
    last = decide([end(Outcome.DEVICE_LOST)] * 3)
    assert last.outcome is Outcome.DEVICE_LOST


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CRASHED, Outcome.HUNG, Outcome.PASSED, Outcome.REFUSED])
def test_what_the_engine_or_the_user_did_is_not_tried_again(outcome: Outcome) -> None:
    assert decide([end(outcome)]).outcome is outcome


def test_finished_tests_of_a_lost_device_are_not_run_again_and_their_failures_stay() -> None:
    lost = end(Outcome.DEVICE_LOST, PASS, FAIL, LOST)
    assert set(carried([lost])) == {"t1", "t2"}
    assert decide([lost, end(Outcome.PASSED)]).outcome is Outcome.FAILED
    assert decide([end(Outcome.DEVICE_LOST, CRASH), end(Outcome.PASSED)]).outcome is Outcome.CRASHED
    assert decide([end(Outcome.DEVICE_LOST, PASS), end(Outcome.PASSED)]).outcome is Outcome.PASSED


@pytest.mark.parametrize(("outcome", "kept"), [(o, o in (Outcome.DEVICE_LOST, Outcome.INFRA_ERROR)) for o in Outcome])
def test_finished_tests_are_carried_after_the_farms_own_trouble_and_after_nothing_else(
    outcome: Outcome, kept: bool
) -> None:
    assert set(carried([end(outcome, PASS, FAIL, LOST)])) == ({"t1", "t2"} if kept else set())


def test_a_cancelled_job_is_not_tried_again() -> None:
    assert decide([end(Outcome.CANCELLED)], cancelled=True).outcome is Outcome.CANCELLED
    assert decide([end(Outcome.DEVICE_LOST)], cancelled=True).outcome is Outcome.CANCELLED
    assert decide([end(Outcome.FAILED)], cancelled=True).outcome is Outcome.FAILED


tests_strategy = st.lists(
    st.builds(TestEnd, st.sampled_from("abc"), st.sampled_from(TestOutcome), st.none() | st.sampled_from(Outcome)),
    max_size=3,
).map(tuple)
attempts_strategy = st.lists(
    st.builds(AttemptEnd, st.sampled_from(Outcome), st.integers(1, 3), st.just(""), tests_strategy),
    min_size=1,
    max_size=8,
)


@given(attempts_strategy)
def test_a_job_is_red_only_when_an_attempt_or_a_finished_test_was(attempts: list[AttemptEnd]) -> None:
    if MEANING[job_outcome(attempts)].colour is not Colour.BAD:
        return
    red_end = MEANING[attempts[-1].outcome].colour is Colour.BAD
    red_test = any(MEANING[t.verdict()].colour is Colour.BAD for t in carried(attempts).values())
    assert red_end or red_test


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=40))
def test_no_sequence_of_ends_is_tried_for_ever(outcomes: list[Outcome]) -> None:
    tries: list[AttemptEnd] = []
    for outcome in outcomes:
        tries.append(end(outcome))
        if not decide(tries).retry:
            return
    assert len(tries) <= sum(m.max_retries for m in MEANING.values())


def test_settle_and_limits_are_the_strictest_wish_and_the_longest_time() -> None:
    pack = {
        "suites": {
            "a": {"settle": {"max_temperature_c": 40, "timeout_s": 60}, "limits": {"suite_s": 100, "silence_s": 20}},
            "b": {"settle": {"max_temperature_c": 35}, "limits": {}},
        }
    }
    assert settle_of(pack, ["a", "b"]) == {"max_temperature_c": 35, "timeout_s": 60}
    assert settle_of(pack, ["b"]) == {"max_temperature_c": 35}
    assert limits_of(pack, ["a", "b"], 600, 30) == {"attempt_s": 760, "suite_s": 600, "silence_s": 30}
