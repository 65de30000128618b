"""What a host that was given up for lost kept of an attempt: told beside the recorded outcome, never in its place.

The job has gone on elsewhere meanwhile, so nothing of it is counted: its tests ran again, or ended the run without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from farm.domain.journal import Kind, Record
from farm.domain.outcomes import Outcome, TestOutcome
from farm.domain.words import count

#: So many kinds of incidents are named.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class LateTruth:
    """`outcome`: what the runner found there; None: it did not come so far, and `words` say how far it came."""

    outcome: Outcome | None
    words: str


def late_truth(records: Iterable[Record], heard: Collection[int]) -> LateTruth:
    """What a journal says that the farm has not heard. `heard`: numbers of the records that came in time."""
    end: Record | None = None
    unheard: dict[str, str] = {}
    incidents: Counter[str] = Counter()
    started = False
    for record in records:
        if record.kind == Kind.START:
            started, end = True, None
        elif record.kind == Kind.END:
            end = record
        elif record.seq in heard:
            continue
        elif record.kind == Kind.TEST_END:
            unheard[str(record.fields.get("test"))] = str(record.fields.get("outcome"))
        elif record.kind == Kind.INCIDENT:
            incidents[str(record.fields.get("class"))[:60]] += 1
    outcome, words = _end(end, started)
    return LateTruth(outcome, f"{words}{_tests(unheard)}{_incidents(incidents)}")


def _end(end: Record | None, started: bool) -> tuple[Outcome | None, str]:
    if end is None:
        return None, "its runner left no end" if started else "its tests had not begun"
    try:
        outcome = Outcome(str(end.fields.get("outcome")))
    except ValueError:
        return None, "its runner's end makes no sense"
    reason = str(end.fields.get("reason") or "")
    return outcome, f"its runner ended {outcome.value}{f' ({reason})' if reason else ''}"


def _incidents(unheard: Counter[str]) -> str:
    """`; its journal has incidents: crash (2), anr`."""
    if not unheard:
        return ""
    told = [f"{klass} ({number})" if number > 1 else klass for klass, number in unheard.most_common(_NAMED)]
    more = f" and {len(unheard) - _NAMED} more kinds" if len(unheard) > _NAMED else ""
    return f"; its journal has incidents: {', '.join(told)}{more}"


def _tests(unheard: dict[str, str]) -> str:
    """`; 2 tests ended unheard and count for nothing: 1 failed, 1 passed`."""
    if not unheard:
        return ""
    order = {outcome.value: n for n, outcome in enumerate(TestOutcome)}
    ends = sorted(Counter(unheard.values()).items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    told = ", ".join(f"{number} {word if word in order else 'of an unknown outcome'}" for word, number in ends)
    how_many = count(len(unheard), "test ended unheard and counts", "tests ended unheard and count")
    return f"; {how_many} for nothing: {told}"
