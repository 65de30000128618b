"""What becomes of a job: how its attempts add up, whether it is tried again, and what a try has to run.

After the loss of a device, or trouble of the farm, only the tests that had not finished run again, wherever that is;
what the finished ones said stays: a test that failed before its device went away keeps the job from being green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm.domain.causes import Cause, ruling
from farm.domain.outcomes import Outcome, Retry, TestOutcome, roll_up

#: Ends after which the finished tests count and are not run again.
RESUMED = frozenset({Outcome.DEVICE_LOST, Outcome.INFRA_ERROR})
#: Causes of a test's end that say nothing about the engine: such a test has not finished.
NO_FAULT = frozenset({Outcome.DEVICE_LOST, Outcome.INFRA_ERROR, Outcome.CANCELLED, Outcome.DEPLOY_FAILED})
#: Order of the classes: how much later than it came a job of this class counts as having come, seconds.
HANDICAP_S = {"debug": 0.0, "pr": 900.0, "manual": 3600.0, "nightly": 16 * 3600.0}


@dataclass(frozen=True, slots=True)
class TestEnd:
    """How one test of an attempt ended."""

    __test__ = False

    test: str
    outcome: TestOutcome
    cause: Outcome | None = None

    def finished(self) -> bool:
        """Whether the test said something about the engine and need not run again."""
        return self.outcome is not TestOutcome.ERROR and self.cause not in NO_FAULT

    def verdict(self) -> Outcome:
        """What the test alone would make of the job."""
        if self.outcome is TestOutcome.FAILED:
            return self.cause or Outcome.FAILED
        return Outcome.PASSED


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt of a job ended."""

    outcome: Outcome
    device_id: int
    reason: str = ""
    tests: tuple[TestEnd, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from a job's attempts: another try (`outcome` is None), or the end."""

    outcome: Outcome | None
    reason: str
    avoid: tuple[int, ...] = ()  # devices that the next try keeps away from when another one matches

    @property
    def retry(self) -> bool:
        return self.outcome is None


def carried(attempts: Sequence[AttemptEnd]) -> dict[str, TestEnd]:
    """The tests that are finished once and for all: those of attempts that ended in no fault of the engine."""
    return {t.test: t for a in attempts if a.outcome in RESUMED for t in a.tests if t.finished()}


def decide(attempts: Sequence[AttemptEnd], *, cancelled: bool = False) -> Decision:
    """What becomes of a job whose attempts, oldest first, ended so."""
    last = attempts[-1]
    if cancelled and last.outcome in (Outcome.CANCELLED, *RESUMED):
        return Decision(Outcome.CANCELLED, "cancelled")
    rule = ruling(last.outcome, last.cause)
    used = sum(1 for a in attempts[:-1] if _same_budget(a, last))
    if not cancelled and rule.retry is not Retry.NO and used < rule.max_retries:
        elsewhere = rule.retry is Retry.ELSEWHERE
        avoid = tuple(dict.fromkeys(a.device_id for a in attempts if a.outcome is not Outcome.PASSED and elsewhere))
        return Decision(None, f"{rule.words}: tried again ({used + 1})", avoid)
    return Decision(job_outcome(attempts), last.reason)


def _same_budget(one: AttemptEnd, other: AttemptEnd) -> bool:
    """Tries are counted per outcome; being taken for somebody else uses up none of the tries for real trouble."""
    return one.outcome is other.outcome and (one.cause is Cause.PREEMPTED) is (other.cause is Cause.PREEMPTED)


def job_outcome(attempts: Sequence[AttemptEnd]) -> Outcome:
    """The last attempt's outcome, or something worse that a finished test of an earlier one said."""
    said = [t.verdict() for t in carried(attempts).values()]
    return roll_up([attempts[-1].outcome, *(o for o in said if o is not Outcome.PASSED)])


def settle_of(pack: Mapping[str, Any], suites: Iterable[str]) -> dict[str, float]:
    """The strictest wish of these suites: lowest temperature, longest wait."""
    wishes = [pack["suites"][s].get("settle", {}) for s in suites]
    temperatures = [w["max_temperature_c"] for w in wishes if "max_temperature_c" in w]
    waits = [w["timeout_s"] for w in wishes if "timeout_s" in w]
    made: dict[str, float] = {}
    if temperatures:
        made["max_temperature_c"] = min(temperatures)
    if waits:
        made["timeout_s"] = max(waits)
    return made


def limits_of(pack: Mapping[str, Any], suites: Iterable[str], suite_s: float, silence_s: float) -> dict[str, float]:
    """`{attempt_s, suite_s, silence_s}`: every suite's time added up, the longest of one, the longest silence."""
    limits = [pack["suites"][s].get("limits", {}) for s in suites]
    times = [float(limit.get("suite_s", suite_s)) for limit in limits]
    return {
        "attempt_s": sum(times) + 60.0,
        "suite_s": max(times, default=suite_s),
        "silence_s": max((float(limit.get("silence_s", silence_s)) for limit in limits), default=silence_s),
    }
