"""What a journal that arrives late says that nobody has heard."""

from __future__ import annotations

from farm.domain.journal import Record
from farm.domain.late import LateTruth, late_truth
from farm.domain.outcomes import Outcome


def journal(*lines: dict[str, str]) -> list[Record]:
    return [
        Record(n, 1.0, 1.0, line["kind"], {k: v for k, v in line.items() if k != "kind"})
        for n, line in enumerate(lines)
    ]


START = {"kind": "start"}
FENCED = {"kind": "end", "outcome": "infra-error", "reason": "fenced"}


def ended(test: str, outcome: str) -> dict[str, str]:
    return {"kind": "test_end", "test": test, "outcome": outcome}


def test_what_the_runner_found_is_told_with_the_tests_that_nobody_heard_of() -> None:
    lines = journal(START, ended("a", "passed"), ended("b", "failed"), ended("c", "passed"), FENCED)
    assert late_truth(lines, {0, 1}) == LateTruth(
        Outcome.INFRA_ERROR,
        "its runner ended infra-error (fenced); 2 tests ended unheard and count for nothing: 1 passed, 1 failed",
    )


def test_what_was_heard_in_time_is_no_news() -> None:
    lines = journal(START, ended("a", "passed"), {"kind": "end", "outcome": "passed"})
    assert late_truth(lines, {0, 1}) == LateTruth(Outcome.PASSED, "its runner ended passed")


def test_a_journal_without_an_end_says_how_far_it_came() -> None:
    assert late_truth([], set()) == LateTruth(None, "its tests had not begun")
    assert late_truth(journal(START), set()) == LateTruth(None, "its runner left no end")
    again = journal(START, FENCED, START, ended("a", "passed"))  # it was started again and died
    words = "its runner left no end; 1 test ended unheard and counts for nothing: 1 passed"
    assert late_truth(again, set()) == LateTruth(None, words)


def test_what_makes_no_sense_is_no_outcome() -> None:
    lines = journal(START, ended("a", "splendid"), {"kind": "end", "outcome": "splendid"})
    words = "its runner's end makes no sense; 1 test ended unheard and counts for nothing: 1 of an unknown outcome"
    assert late_truth(lines, set()) == LateTruth(None, words)


def test_incidents_that_nobody_heard_of_are_named_and_counted() -> None:
    lines = journal(
        START, *({"kind": "incident", "class": klass} for klass in ("crash", "anr", "crash", "warning")), FENCED
    )
    words = "its runner ended infra-error (fenced); its journal has incidents: crash (2), anr"
    assert late_truth(lines, {0, 4}) == LateTruth(Outcome.INFRA_ERROR, words)
    many = journal(START, *({"kind": "incident", "class": f"k{n}"} for n in range(7)))
    assert late_truth(many, set()).words.endswith("its journal has incidents: k0, k1, k2, k3, k4 and 2 more kinds")
