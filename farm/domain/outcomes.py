"""How an attempt ends: one closed, numbered list, and what each end means.

An attempt ends in exactly one `Outcome`. The table `MEANING` alone decides blame, retry, effect on the device's health,
colour and the exit code of the command line; nothing else in the farm may decide these from a string. Where one outcome
has several culprits, `farm.domain.causes` refines blame, retry and health. First cause wins: an attempt that has an
outcome keeps it, a later truth is shown beside it.

A job's outcome is that of its last attempt; a run's is the roll-up `roll_up` of its jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum


class Outcome(StrEnum):
    """The end of an attempt, a job or a run. Values are stored and stand in APIs: never rename one."""

    PASSED = "passed"
    FAILED = "failed"  # a test said no
    CRASHED = "crashed"  # the engine died by a signal
    ANR = "anr"  # the app's main thread did not answer
    KILLED = "killed"  # the system killed the engine (low memory)
    HUNG = "hung"  # the engine was silent longer than its stage allows
    TIMED_OUT = "timed-out"  # the suite or a phase used up its time
    DEPLOY_FAILED = "deploy-failed"  # the bundle did not arrive or cannot start on this device
    REFUSED = "refused"  # precheck said that it cannot work
    DEVICE_LOST = "device-lost"
    INFRA_ERROR = "infra-error"  # the farm's own trouble
    CANCELLED = "cancelled"


class Blame(StrEnum):
    """Whose move it is."""

    NOBODY = "nobody"
    ENGINE = "engine"
    SUITE = "suite"
    DEVICE = "device"
    HOST = "host"  # the machine that the device hangs on: its adb server, disk, network
    FARM = "farm"
    USER = "user"


class Retry(StrEnum):
    """Whether and where the job is tried again; a retry keeps its place in the queue."""

    NO = "no"
    SAME_DEVICE = "same-device"
    ELSEWHERE = "elsewhere"  # another device that matches, the same one when there is no other


class HealthEffect(StrEnum):
    """What the outcome says about the device."""

    NONE = "none"
    GOOD = "good"
    SUSPECT = "suspect"  # checked before the next use


class Colour(StrEnum):
    """The token of the design system; farm trouble is violet, never red."""

    OK = "ok"
    BAD = "bad"
    FARM = "farm"
    MUTED = "muted"


class ExitCode(IntEnum):
    """Exit codes of every waiting command."""

    PASSED = 0
    FAILED = 1
    FARM_TROUBLE = 2
    REFUSED = 3
    WAIT_EXPIRED = 4
    CANCELLED = 5


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of the table: everything that follows from an outcome."""

    number: int
    blame: Blame
    retry: Retry
    max_retries: int
    health: HealthEffect
    colour: Colour
    shape: str  # one character; never colour alone
    exit_code: ExitCode
    words: str


def _row(
    number: int,
    blame: Blame,
    colour: Colour,
    shape: str,
    exit_code: ExitCode,
    words: str,
    *,
    retry: Retry = Retry.NO,
    max_retries: int = 0,
    health: HealthEffect = HealthEffect.NONE,
) -> Meaning:
    return Meaning(number, blame, retry, max_retries, health, colour, shape, exit_code, words)


MEANING: dict[Outcome, Meaning] = {
    Outcome.PASSED: _row(
        0, Blame.NOBODY, Colour.OK, "●", ExitCode.PASSED, "every test passed", health=HealthEffect.GOOD
    ),
    Outcome.FAILED: _row(1, Blame.ENGINE, Colour.BAD, "✕", ExitCode.FAILED, "a test failed", health=HealthEffect.GOOD),
    Outcome.CRASHED: _row(2, Blame.ENGINE, Colour.BAD, "▲", ExitCode.FAILED, "the engine crashed"),
    Outcome.ANR: _row(3, Blame.ENGINE, Colour.BAD, "▲", ExitCode.FAILED, "the app stopped answering"),
    Outcome.KILLED: _row(4, Blame.ENGINE, Colour.BAD, "▲", ExitCode.FAILED, "the system killed the engine"),
    Outcome.HUNG: _row(5, Blame.ENGINE, Colour.BAD, "▲", ExitCode.FAILED, "the engine went silent"),
    Outcome.TIMED_OUT: _row(6, Blame.SUITE, Colour.BAD, "✕", ExitCode.FAILED, "the time limit was reached"),
    Outcome.DEPLOY_FAILED: _row(
        7,
        Blame.FARM,
        Colour.FARM,
        "◇",
        ExitCode.FARM_TROUBLE,
        "the bundle could not be put on the device",
        retry=Retry.ELSEWHERE,
        max_retries=1,
        health=HealthEffect.SUSPECT,
    ),
    Outcome.REFUSED: _row(8, Blame.USER, Colour.FARM, "◇", ExitCode.REFUSED, "the precheck refused it"),
    Outcome.DEVICE_LOST: _row(
        9,
        Blame.DEVICE,
        Colour.FARM,
        "◇",
        ExitCode.FARM_TROUBLE,
        "the device went away",
        retry=Retry.ELSEWHERE,
        max_retries=2,
        health=HealthEffect.SUSPECT,
    ),
    Outcome.INFRA_ERROR: _row(
        10,
        Blame.FARM,
        Colour.FARM,
        "◇",
        ExitCode.FARM_TROUBLE,
        "it could not be carried out",
        retry=Retry.ELSEWHERE,
        max_retries=1,
        health=HealthEffect.SUSPECT,
    ),
    Outcome.CANCELLED: _row(11, Blame.USER, Colour.MUTED, "○", ExitCode.CANCELLED, "cancelled"),
}

#: Worst first: what the engine did outranks what the farm did, which outranks a pass.
_SEVERITY: tuple[Outcome, ...] = (
    Outcome.CRASHED,
    Outcome.ANR,
    Outcome.KILLED,
    Outcome.HUNG,
    Outcome.FAILED,
    Outcome.TIMED_OUT,
    Outcome.REFUSED,
    Outcome.DEPLOY_FAILED,
    Outcome.DEVICE_LOST,
    Outcome.INFRA_ERROR,
    Outcome.CANCELLED,
    Outcome.PASSED,
)


class TestOutcome(StrEnum):
    """The end of one test inside an attempt."""

    __test__ = False  # pytest must not take the class for a test

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # "not available, because …" is a legal answer of a device
    ERROR = "error"  # the test's set-up or the farm failed, not its assertion


class Phase(StrEnum):
    """Steps of an attempt, in order; each is entered once (or again, from its start, after a crash of the farm)."""

    PLANNED = "planned"
    PRECHECK = "precheck"
    DEPLOY = "deploy"
    SETTLE = "settle"
    EXECUTE = "execute"
    COLLECT = "collect"
    CLEAN = "clean"
    VERDICT = "verdict"
    DONE = "done"

    def before(self, other: Phase) -> bool:
        order = list(Phase)
        return order.index(self) < order.index(other)


class State(Enum):
    """Where a run or a job stands; its outcome is set exactly when it is ENDED."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


def roll_up(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a run from its jobs' (the worst by severity). No job at all is the farm's trouble."""
    present = set(outcomes)
    for outcome in _SEVERITY:
        if outcome in present:
            return outcome
    return Outcome.INFRA_ERROR
