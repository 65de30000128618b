"""When an attempt must be stopped: pure arithmetic over signs of life, fed by the supervisor's loop.

Times are seconds of one monotonic clock. Waiting for a turn is neither silence nor the suite's time; the limit
of the whole attempt stands all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farm.adb.deadline import STRETCH
from farm.domain.causes import Cause
from farm.domain.outcomes import Outcome
from farm.evidence.pressure import fair_s
from runner.spec import Limits


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the attempt is stopped now. `takes_stacks`: something hangs and its stacks are worth having."""

    outcome: Outcome
    reason: str
    takes_stacks: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Signs:
    """What the loop saw. `suite`: the suite that runs, from the running test; None before the first test."""

    now: float
    last_sign: float
    waits_for_turn: bool
    queued_s: float  # all the time spent in the queue for turns so far
    suite: str | None
    cancelled: bool
    renewal: str | None  # content of the file that the agent rewrites
    stalled_s: float | None = None  # time in which some process of this host waited for a CPU, so far


class Watch:
    """Remembers what needs remembering between two looks."""

    def __init__(self, began: float, limits: Limits, suites: Mapping[str, Limits], fence_s: float | None) -> None:
        self._began, self._limits, self._suites, self._fence_s = began, limits, suites, fence_s
        self._suite: str | None = None
        self._suite_began = began
        self._suite_queued = 0.0
        self._renewal: str | None = None
        self._renewed_at = began
        self._last_sign = -1.0
        self._stalled_s: float | None = None  # at the last sign

    def look(self, signs: Signs) -> Stop | None:
        """Why to stop now; None to go on. The first reason that applies, and always the same order."""
        if signs.cancelled:
            return Stop(Outcome.CANCELLED, "cancelled")
        if signs.renewal != self._renewal:
            self._renewal, self._renewed_at = signs.renewal, signs.now
        if self._fence_s and signs.now - self._renewed_at > self._fence_s:
            words = f"fenced: the lease was not renewed for {self._fence_s:g} s"
            return Stop(Outcome.INFRA_ERROR, words, cause=Cause.FENCED)
        if signs.now - self._began > self._limits.attempt_s:
            return Stop(Outcome.TIMED_OUT, f"the attempt's limit of {self._limits.attempt_s:g} s was reached", True)
        return self._suite_limits(signs)

    def _suite_limits(self, signs: Signs) -> Stop | None:
        if signs.suite is not None and signs.suite != self._suite:
            self._suite, self._suite_began, self._suite_queued = signs.suite, signs.now, signs.queued_s
        limits = self._suites.get(self._suite or "", self._limits)
        used = signs.now - self._suite_began - (signs.queued_s - self._suite_queued)
        if used > limits.suite_s:
            return Stop(Outcome.TIMED_OUT, f"suite {self._suite or '?'} used up its {limits.suite_s:g} s", True)
        if not signs.waits_for_turn and self._silence_s(signs) > limits.silence_s:
            return Stop(Outcome.TIMED_OUT, f"no sign of life from the suite for {limits.silence_s:g} s", True)
        return None

    def _silence_s(self, signs: Signs) -> float:
        """Since the last sign; a busy host's time counts for a part, as it does for what devices answer."""
        if signs.last_sign != self._last_sign:
            self._last_sign, self._stalled_s = signs.last_sign, signs.stalled_s
        known = signs.stalled_s is not None and self._stalled_s is not None
        stalled_s = (signs.stalled_s or 0.0) - (self._stalled_s or 0.0) if known else None
        return fair_s(signs.now - signs.last_sign, stalled_s, STRETCH)
