"""A state as shape, colour and word: never colour alone. Outcomes take theirs from `farm.domain.outcomes.MEANING`."""

from __future__ import annotations

from dataclasses import dataclass

from farm.domain.devices import Availability
from farm.domain.outcomes import MEANING, Outcome, Phase, State, TestOutcome
from farm.store.reads.results import result_word


@dataclass(frozen=True, slots=True)
class Sign:
    """`shape` is the name of a drawing of the sprite, `colour` a token of the style sheet, `why` a hover text."""

    shape: str
    colour: str
    word: str
    why: str = ""


#: The characters of the design → the drawings that stand for them on every machine alike.
_DRAWN = {"●": "dot", "✕": "cross", "▲": "triangle", "◇": "diamond", "○": "ring"}

RUNNING = Sign("quarter", "accent", "running")
WAITING = Sign("point", "muted", "waiting")
QUEUED = Sign("point", "muted", "queued")
UNFINISHED = Sign("ring", "muted", "unfinished", "its attempt was over before it ended")
NOT_RUN = Sign("ring", "muted", "not run", "its attempt was over before it began")
PAUSED = Sign("ring", "warn", "paused", "it works, and gets no new work until it is resumed")
CANCELLING = Sign("quarter", "muted", "cancelling")
ABSENT = Sign("none", "muted", "not here", "not part of this device's suite")


def of_outcome(value: str | None, why: str | None = None) -> Sign:
    """Of an attempt, a job or a run that ended; a word that this version does not know is shown as it is.

    `why`: what is known beyond the outcome, whose it is.
    """
    try:
        outcome = Outcome(value or "")
    except ValueError:
        return Sign("diamond", "farm", value or "no outcome", "this page does not know the outcome")
    meaning = MEANING[outcome]
    return Sign(_DRAWN.get(meaning.shape, "dot"), meaning.colour.value, plain(outcome.value), why or meaning.words)


def of_run(state: str, outcome: str | None, cancelling: bool = False) -> Sign:
    """Of a run or a job."""
    if outcome is not None:
        return of_outcome(outcome)
    if cancelling:
        return CANCELLING
    return RUNNING if state == State.RUNNING.value else QUEUED


_TESTS = {
    TestOutcome.SKIPPED.value: Sign("ring", "muted", "skipped"),
    TestOutcome.ERROR.value: Sign("diamond", "farm", "error", "set-up failed, not the assertion"),
    "running": RUNNING,
    "waiting": WAITING,
    "unfinished": UNFINISHED,
    "not-run": NOT_RUN,
}


def of_test(state: str, outcome: str | None, cause: str | None = None, message: str | None = None) -> Sign:
    """Of one test: what the engine died of, or the suite was stopped for, goes before the bare "failed" or "error"."""
    word = result_word(state, outcome, cause)
    sign = _TESTS.get(word) or of_outcome(word)
    return Sign(sign.shape, sign.colour, sign.word, message or ("" if outcome else sign.why))


_AVAILABILITY = {
    Availability.GONE: Sign("ring", "muted", "gone"),
    Availability.STALE: Sign("ring", "warn", "stale"),
    Availability.QUARANTINED: Sign("triangle", "warn", "quarantined"),
    Availability.MAINTENANCE: Sign("diamond-full", "warn", "maintenance"),
    Availability.RESERVED: Sign("diamond-full", "farm", "reserved"),
    Availability.RUNNING: RUNNING,
    Availability.CLEANING: Sign("quarter", "muted", "cleaning"),
    Availability.NOT_READY: Sign("half", "warn", "not ready"),
    Availability.CHECKING: Sign("half", "warn", "checking"),
    Availability.READY: Sign("ring", "ok", "ready"),
}


def of_device(word: Availability, phase: str | None = None) -> Sign:
    """Of a tile; a device that settles before its test is cooling, not running."""
    if word is Availability.RUNNING and phase == Phase.SETTLE.value:
        return Sign("half", "cool", "cooling")
    return _AVAILABILITY[word]


def of_host(silent: bool, paused: bool) -> Sign:
    """Of a machine with devices on it."""
    if silent:
        return Sign("ring", "warn", "silent", "nothing is heard of its agent: its devices cannot be used")
    return PAUSED if paused else Sign("dot", "ok", "heard of")


def plain(word: str) -> str:
    """A stored word as prose: `timed-out` → `timed out`."""
    return word.replace("-", " ").replace("_", " ")
