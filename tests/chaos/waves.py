"""One fault meets attempts in different steps, and what came of each is looked at.

    rows = wave(lab, fault, cases, seed)      # a row per case: fault, step, outcome, attempts, and what is wrong

Everything random (where in a step, after how many tests, for how long) comes from the seed, the fault and the step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from sqlalchemy import select

from farm.domain.causes import Cause, cause_of, ruling
from farm.domain.outcomes import Outcome, Phase
from farm.store import tables
from tests.chaos.farm import ChaosLab
from tests.chaos.faults import Case, Fault, blames
from tests.chaos.gates import AFTER, BEFORE, STEPS
from tests.waiting import eventually

TESTS = [f"chaos/test_chaos.py::test_step[{n}]" for n in range(4)]
#: In the place of a step: what was seen of the farm as a whole.
FARM = "farm"
#: Generous: seven attempts at once on two loaded cores, and a device that has to be found, rested and cleaned.
LONG_S = 300.0


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one case. `attempts`: (outcome, cause, blame) of each; `wrong`: what must not be, in words."""

    fault: str
    step: str
    where: str
    seed: str
    outcome: str
    attempts: tuple[tuple[str | None, str | None, str | None], ...]
    wrong: tuple[str, ...]


def cases_of(fault: Fault, steps: Sequence[Phase], seed: str, first: int = 1) -> list[Case]:
    """A case per step, each on a device of its own, from H1D`first` on."""
    made = []
    for number, step in enumerate(steps):
        rng = Random(f"{seed}:{fault.name}:{step.value}")
        where = str(rng.randint(0, 2)) if step is Phase.EXECUTE else rng.choice((BEFORE, AFTER))
        made.append(Case(step, f"H1D{first + number}", where))
    return made


def wave(lab: ChaosLab, fault: Fault, seed: str, steps: Sequence[Phase] = STEPS) -> list[Row]:
    """The whole life of a wave. What is wrong stands in the rows; an assertion means that the farm got stuck."""
    return waves(lab, [(fault, cases_of(fault, steps, seed))], seed)


def waves(lab: ChaosLab, parts: Sequence[tuple[Fault, Sequence[Case]]], seed: str, step_s: float = 3.0) -> list[Row]:
    """Several faults at once, each with its own cases: faults of devices do not meet each other.

    `step_s`: how long each of the four tests takes that are met while they run.
    """
    rng = Random(f"{seed}:{'+'.join(fault.name for fault, _ in parts)}")
    cases = [case for _, found in parts for case in found]
    bystander = lab.begin_bystander()
    _hold(lab, cases, step_s)
    for fault, found in parts:
        fault.strike(lab, found, rng)
    for case in cases:
        lab.gates.open(case.serial, case.step)
    until = sorted((rng.uniform(*fault.hold_s), n) for n, (fault, _) in enumerate(parts))
    began = time.monotonic()
    for hold_s, n in until:
        eventually(partial(_over, began + hold_s), LONG_S, what="the fault has lasted its time")
        parts[n][0].mend(lab, parts[n][1], rng)
    for case in cases:
        lab.ended(case.run, LONG_S)
    if bystander is not None:
        lab.ended(bystander, LONG_S)
    eventually(lambda: lab.open_leases() == 0, LONG_S, what="every lease has ended")
    eventually(lambda: not lab.folders(), LONG_S, what="what every attempt left on its host is collected")
    lab.ready(len(lab.serials))
    rows = [_judge(lab, fault, case, seed) for fault, found in parts for case in found]
    wrong = _farm_wide(lab)
    if bystander is not None:
        wrong += _unspoilt(lab, bystander, "the bystander")
    return [*rows, Row("+".join(f.name for f, _ in parts), FARM, "", seed, "", (), tuple(wrong))]


def _over(moment: float) -> bool:
    return time.monotonic() >= moment


def _hold(lab: ChaosLab, cases: Sequence[Case], step_s: float) -> None:
    """Every attempt is in its step; the ones that execute come last, since they do not stand still."""
    still = [case for case in cases if case.step is not Phase.EXECUTE]
    for case in still:
        if case.step is Phase.DEPLOY:
            lab.forget_bundle(case.serial)  # otherwise there is nothing to push
        lab.gates.close(case.serial, case.step, case.where)
        case.run = lab.begin_run(case.serial, step_s=0.1)
    for case in still:
        with _told(lab, case):
            held = f"{case.serial} is held in {case.step.value}"
            eventually(partial(lab.gates.reached, case.serial, case.step), LONG_S, what=held)
    moving = [case for case in cases if case.step is Phase.EXECUTE]
    for case in moving:
        case.run = lab.begin_run(case.serial, step_s)
    for case in moving:
        with _told(lab, case):
            lab.reached(case.run, Phase.EXECUTE.value)
            if int(case.where):
                lab.underway(case.run, int(case.where))


@contextmanager
def _told(lab: ChaosLab, case: Case) -> Iterator[None]:
    """A wait that was in vain tells the whole story."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}; {lab.story(case.run)}; {lab.available()}; {lab.logs()}") from None


def _judge(lab: ChaosLab, fault: Fault, case: Case, seed: str) -> Row:
    attempts = lab.attempts(case.run)
    outcome = lab.ended(case.run)
    wrong = []
    if Outcome(outcome) not in fault.ends:
        wrong.append(f"the run ended {outcome}: {lab.story(case.run)}")
    for attempt in attempts:
        wrong += _kept(lab, attempt)
        if attempt.outcome is None or attempt.phase != Phase.DONE.value:
            wrong.append(f"attempt {attempt.id} has no end: {attempt.phase}")
        elif attempt.outcome != Outcome.PASSED.value:
            cause = cause_of(attempt.cause)
            unnamed = cause is None and attempt.blame in {blame.value for blame in blames(fault)}
            if cause not in fault.spoils and not unnamed:
                wrong.append(f"attempt {attempt.id} ended {attempt.outcome}/{attempt.cause}: {attempt.reason}")
            if attempt.blame != ruling(Outcome(attempt.outcome), cause).blame.value:
                wrong.append(f"attempt {attempt.id} blames {attempt.blame}")
    if outcome == Outcome.PASSED.value and lab.passed(case.run) != Counter(TESTS):
        wrong.append(f"finished tests: {dict(lab.passed(case.run))}")
    return Row(
        fault.name,
        case.step.value,
        case.where,
        seed,
        outcome,
        tuple((a.outcome, a.cause, a.blame) for a in attempts),
        tuple(wrong),
    )


def _kept(lab: ChaosLab, attempt: tables.Attempt) -> list[str]:
    """What must be kept of an attempt that ran, and is not; a host that was lost sends it when it is back."""
    names = lab.kept(attempt.id)
    with lab.db.read() as session:
        query = select(tables.Incident).where(
            tables.Incident.attempt_id == attempt.id, tables.Incident.klass == "farm-error"
        )
        bugs = [f"{bug.summary} {bug.evidence}" for bug in session.scalars(query)]
        tests = list(session.scalars(select(tables.Test).where(tables.Test.attempt_id == attempt.id)))
    steps = {f"step-{t.test_id[-2]}.txt" for t in tests if t.outcome == "passed"}
    wanted = {"journal.jsonl", "logcat.zst", *steps} if steps else set()
    missing = [f"attempt {attempt.id} has not kept {sorted(wanted - names)}"] if wanted - names else []
    if wanted and attempt.cause == Cause.HOST_LOST.value and attempt.late_at is None:
        missing.append(f"attempt {attempt.id} was lost with its host, and nobody says what arrived late")
    return [*missing, *(f"attempt {attempt.id}: {bug}" for bug in bugs)]


def _unspoilt(lab: ChaosLab, run: int, who: str) -> list[str]:
    outcomes = [a.outcome for a in lab.attempts(run)]
    lost = any(map(partial(_kept, lab), lab.attempts(run)))
    good = outcomes == ["passed"] and lab.passed(run) == Counter(TESTS) and not lost
    return [] if good else [f"{who} noticed: {lab.story(run)}"]


def _farm_wide(lab: ChaosLab) -> list[str]:
    """What must hold whatever happened, over all rows of the farm."""
    wrong = [f"leases {a} and {b} overlap on one device" for a, b in lab.overlapping()]
    with lab.db.read() as session:
        for run in session.scalars(select(tables.Run)):
            jobs = list(session.scalars(select(tables.Job).where(tables.Job.run_id == run.id)))
            if run.state != "ended" or run.outcome is None or any(job.outcome is None for job in jobs):
                wrong.append(f"run {run.id} has no outcome: {run.state}")
        for lease in session.scalars(select(tables.Lease).where(tables.Lease.ended_at.is_(None))):
            wrong.append(f"lease {lease.id} is still open")
        tokens = session.execute(select(tables.Lease.device_id, tables.Lease.token)).all()
        wrong += [f"token {token} was given twice on device {d}" for (d, token), n in Counter(tokens).items() if n > 1]
    return wrong
