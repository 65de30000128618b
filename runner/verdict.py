"""How an attempt ended: pure, from its journal and from how its pytest ended."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from farm.domain.causes import Cause, cause_of
from farm.domain.journal import Kind, Record
from farm.domain.outcomes import Outcome, TestOutcome
from farm.domain.words import count
from runner.gate import UNFINISHED_CAUSES
from runner.watch import Stop

#: What the engine did, told by a test's cause; the first such test decides.
_ENGINE_CAUSES = frozenset({Outcome.CRASHED, Outcome.ANR, Outcome.KILLED, Outcome.HUNG})
#: pytest's exit codes (pytest.ExitCode) that say that pytest itself came to its end.
_PYTEST_WORDS = {
    2: "the test session was interrupted",
    3: "pytest failed inside itself",
    4: "pytest could not use its arguments or the pack's configuration",
    5: "the pack has no test here",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fields of the journal's `end` record."""

    outcome: Outcome
    reason: str
    counts: dict[str, int]
    cause: Cause | None = None  # whose it is, where the outcome alone does not say


def unfinished(record: Record) -> bool:
    """Whether a test_end leaves the test to be run again: the farm or the device failed, not the test."""
    return record.fields.get("cause") in UNFINISHED_CAUSES


def finished_tests(records: Iterable[Record]) -> dict[str, str]:
    """test -> outcome of every test that need not run again."""
    ends = (r for r in records if r.kind == Kind.TEST_END and not unfinished(r))
    return {str(record.fields["test"]): str(record.fields["outcome"]) for record in ends}


def conclude(
    records: Iterable[Record],
    stop: Stop | None,
    lost: dict[str, str],
    exit_code: int | None,
    finished: Collection[str] = (),
) -> Verdict:
    """The one outcome of the attempt. `exit_code`: pytest's; None when it never started.

    `finished`: tests that ended in earlier attempts of the job and were not to be run again.

    What the engine did comes first, then why the attempt was stopped, then what the tests say.
    """
    kept = list(records)
    ends = [r for r in kept if r.kind == Kind.TEST_END]
    final = {str(r.fields["test"]): r for r in ends}  # a test that was run again counts by its last end
    counts = dict(Counter(str(r.fields["outcome"]) for r in final.values()))

    def verdict(outcome: Outcome, reason: str, cause: Cause | None = None) -> Verdict:
        return Verdict(outcome, reason[:2000], counts, cause)

    for record in final.values():
        cause = record.fields.get("cause")
        if cause in _ENGINE_CAUSES:
            message = str(record.fields.get("message") or cause)
            return verdict(Outcome(cause), f"{record.fields['test']}: {message.splitlines()[0]}")
    if stop is not None and stop.outcome is not Outcome.DEVICE_LOST:
        return verdict(stop.outcome, stop.reason, stop.cause)
    if lost:
        words = "; ".join(f"{device}: {why}" for device, why in lost.items())
        return verdict(Outcome.DEVICE_LOST, words, _why_lost(final.values()))
    for test, record in final.items():
        if unfinished(record):
            words = f"{test}: {record.fields.get('message') or ''}"
            return verdict(Outcome(record.fields["cause"]), words, cause_of(str(record.fields.get("fine_cause") or "")))
    return _by_tests(final, kept, counts, exit_code, frozenset(finished))


def _why_lost(ends: Iterable[Record]) -> Cause | None:
    """What the test that lost its device said of it."""
    said = (r.fields.get("fine_cause") for r in ends if r.fields.get("cause") == Outcome.DEVICE_LOST)
    return next((cause_of(str(fine)) for fine in said if fine), None)


def _by_tests(
    final: dict[str, Record],
    kept: list[Record],
    counts: dict[str, int],
    exit_code: int | None,
    finished: frozenset[str],
) -> Verdict:
    bad = [test for test, r in final.items() if r.fields["outcome"] in (TestOutcome.FAILED, TestOutcome.ERROR)]
    if exit_code is None:
        return Verdict(Outcome.INFRA_ERROR, "the tests were never started", counts)
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        message = str(final[bad[0]].fields.get("message") or "").strip().splitlines()
        return Verdict(Outcome.FAILED, f"{bad[0]}{more}: {message[0] if message else 'failed'}"[:2000], counts)
    collected = {str(test) for r in kept if r.kind == Kind.COLLECTED for test in r.fields["tests"]}
    missing = sorted(collected - final.keys() - finished)
    if exit_code not in (0, 1, 5):
        words = _PYTEST_WORDS.get(exit_code) or death(exit_code)
        return Verdict(Outcome.FAILED, f"{words} (exit code {exit_code}): see the runner's log", counts)
    if missing:
        return Verdict(Outcome.FAILED, f"{missing[0]} and {len(missing) - 1} more were not run", counts)
    if not final and not finished:
        return Verdict(Outcome.FAILED, "no test was found: check the suites' paths and the tests' names", counts)
    return Verdict(Outcome.PASSED, count(len(final), "test"), counts)


def death(exit_code: int) -> str:
    """How a pytest ended that did not come to its end, in words; bubblewrap tells a signal as 128 more."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    if not 0 < number < 65:
        return f"the test process ended with code {exit_code}"
    try:
        return f"the test process died by {signal.Signals(number).name}"
    except ValueError:  # a real-time signal has no name
        return f"the test process died by signal {number}"
