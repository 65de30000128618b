"""The table beside the outcomes: closed, numbered, and nobody blamed for what another did."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from farm.domain.causes import CAUSES, Cause, cause_of, end_words, fits, ruling
from farm.domain.jobs import AttemptEnd, decide
from farm.domain.outcomes import MEANING, Blame, Colour, HealthEffect, Outcome, Retry


def test_every_outcome_and_every_cause_has_its_row_and_its_own_number() -> None:
    assert set(MEANING) == set(Outcome)
    assert sorted(row.number for row in MEANING.values()) == list(range(len(Outcome)))
    assert set(CAUSES) == set(Cause)
    assert [CAUSES[cause].number for cause in Cause] == list(range(len(Cause)))


def test_only_what_engine_or_suite_did_can_be_red() -> None:
    red = {outcome for outcome, row in MEANING.items() if row.colour is Colour.BAD}
    assert {MEANING[outcome].blame for outcome in red} == {Blame.ENGINE, Blame.SUITE}
    for outcome, cause in itertools.product(Outcome, Cause):
        if fits(outcome, cause) and outcome in red:
            assert ruling(outcome, cause).blame in (Blame.ENGINE, Blame.SUITE), (outcome, cause)


def test_a_cause_that_does_not_belong_to_the_outcome_changes_nothing() -> None:
    for outcome, cause in itertools.product(Outcome, Cause):
        if not fits(outcome, cause):
            assert ruling(outcome, cause) == ruling(outcome), (outcome, cause)


@pytest.mark.parametrize(
    ("outcome", "cause", "blame", "retry", "health"),
    [
        (Outcome.DEPLOY_FAILED, None, Blame.FARM, Retry.ELSEWHERE, HealthEffect.SUSPECT),
        (Outcome.DEPLOY_FAILED, Cause.STORAGE_FULL, Blame.DEVICE, Retry.ELSEWHERE, HealthEffect.SUSPECT),
        (Outcome.DEPLOY_FAILED, Cause.MISSING_FILE, Blame.USER, Retry.NO, HealthEffect.NONE),
        (Outcome.DEPLOY_FAILED, Cause.TRANSFER_BROKE, Blame.DEVICE, Retry.ELSEWHERE, HealthEffect.SUSPECT),
        (Outcome.DEPLOY_FAILED, Cause.HOST_DISK, Blame.HOST, Retry.ELSEWHERE, HealthEffect.NONE),
        (Outcome.INFRA_ERROR, Cause.ADB_SERVER, Blame.HOST, Retry.ELSEWHERE, HealthEffect.NONE),
        (Outcome.INFRA_ERROR, Cause.HOST_LOST, Blame.HOST, Retry.ELSEWHERE, HealthEffect.NONE),
        (Outcome.INFRA_ERROR, Cause.DEVICE_UNFIT, Blame.DEVICE, Retry.ELSEWHERE, HealthEffect.SUSPECT),
        (Outcome.REFUSED, Cause.WRONG_ABI, Blame.USER, Retry.NO, HealthEffect.NONE),
        (Outcome.DEVICE_LOST, Cause.GONE, Blame.DEVICE, Retry.ELSEWHERE, HealthEffect.SUSPECT),
    ],
)
def test_one_outcome_has_the_culprit_that_its_cause_names(
    outcome: Outcome, cause: Cause | None, blame: Blame, retry: Retry, health: HealthEffect
) -> None:
    found = ruling(outcome, cause)
    assert (found.blame, found.retry, found.health) == (blame, retry, health)


def test_a_bundle_without_the_file_is_not_tried_on_the_next_device() -> None:
    assert decide([AttemptEnd(Outcome.DEPLOY_FAILED, 1, cause=Cause.STORAGE_FULL)]).retry
    assert not decide([AttemptEnd(Outcome.DEPLOY_FAILED, 1, cause=Cause.MISSING_FILE)]).retry


def test_a_job_whose_device_was_taken_keeps_its_tries_for_real_trouble() -> None:
    taken = AttemptEnd(Outcome.INFRA_ERROR, 1, cause=Cause.PREEMPTED)
    trouble = AttemptEnd(Outcome.INFRA_ERROR, 1, cause=Cause.ADB_SERVER)
    assert decide([taken, taken, trouble]).retry
    assert not decide([trouble, taken, trouble]).retry
    assert decide([taken] * 5).retry
    assert not decide([taken] * 6).retry


@pytest.mark.parametrize(
    ("outcome", "cause", "words"),
    [
        (Outcome.INFRA_ERROR, Cause.RUNNER_DIED, "the host failed: the runner died"),
        (Outcome.INFRA_ERROR, Cause.DEVICE_SLOW, "the device failed: it did not answer in time"),
        (Outcome.INFRA_ERROR, Cause.FARM_BUG, "the farm failed: an error of its own"),
        (Outcome.INFRA_ERROR, None, "the farm failed"),
        (Outcome.INFRA_ERROR, Cause.PREEMPTED, "an operator took the device"),
        (Outcome.DEVICE_LOST, Cause.GONE, "the device went away: adb lists it no more"),
        (Outcome.CRASHED, None, "the engine crashed"),
    ],
)
def test_an_end_is_told_in_the_words_of_whose_it_is(outcome: Outcome, cause: Cause | None, words: str) -> None:
    assert ruling(outcome, cause).words == words == end_words(outcome.value, cause and cause.value)


def test_nobody_but_the_farm_is_told_that_the_farm_failed() -> None:
    for outcome in Outcome:
        assert "the farm failed" not in MEANING[outcome].words, "a roll-up does not know whose it is"
        for cause in (None, *Cause):
            found = ruling(outcome, cause)
            assert "the farm failed" not in found.words or found.blame is Blame.FARM
    assert end_words("of-a-newer-farm") == "of-a-newer-farm"


def test_a_stored_word_of_a_newer_farm_is_no_cause() -> None:
    assert cause_of("adb-server") is Cause.ADB_SERVER
    assert cause_of("made of cheese") is None
    assert cause_of(None) is None


def test_the_document_has_the_row_of_every_outcome_and_cause() -> None:
    text = (Path(__file__).parents[2] / "docs" / "health.md").read_text()
    for outcome, row in MEANING.items():
        found = [line for line in text.splitlines() if line.startswith(f"| {row.number} | `{outcome.value}` |")]
        assert len(found) == 1, outcome
        assert [row.blame.value, str(int(row.exit_code))] == [found[0].split(" | ")[2], found[0].split(" | ")[-1][:-2]]
    for cause, fine in CAUSES.items():
        found = [line for line in text.splitlines() if line.startswith(f"| {fine.number} | `{cause.value}` |")]
        assert len(found) == 1, cause
        assert found[0].split(" | ")[3] == fine.blame.value, cause
        assert found[0].split(" | ")[2] == ", ".join(o.value for o in Outcome if o in fine.outcomes), cause
