"""One run: did it pass, where not, can its figures be trusted, what now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard import incidents, signs
from dashboard.errors import PageError, gone
from dashboard.house import MAX_ID, House
from dashboard.measured import facts, groups, stage_table
from dashboard.signs import Sign
from dashboard.timeline import timeline
from farm.domain.outcomes import MEANING, Blame, Colour, Outcome
from farm.domain.words import count
from farm.store.people import Scope
from farm.store.reads import runs as reads
from farm.store.reads.runs import JobRow, RunDetail
from farm.store.reads.tries import AttemptRow
from farm.store.tables import Run

RunId = Annotated[int, Path(ge=1, le=MAX_ID)]


def is_farm_trouble(outcome: str | None) -> bool:
    """Whether the farm or the device, not the engine, ended it so."""
    try:
        return outcome is not None and MEANING[Outcome(outcome)].blame in (Blame.FARM, Blame.HOST, Blame.DEVICE)
    except ValueError:
        return True


def answer(detail: RunDetail) -> tuple[Sign, str]:
    """The first line: the outcome and where it comes from, or what it waits for."""
    run, total = detail.run, detail.run.jobs.total
    sign = signs.of_run(run.state, run.outcome, run.cancel_at is not None)
    if run.outcome is None:
        if run.state == "queued":
            why = next((job.wait_reason for job in detail.jobs if job.wait_reason), None)
            return sign, why or "waits to be planned"
        known = detail.progress.known
        return sign, f"{detail.progress.done} of {count(known, 'test')} done" if known else "no test has begun yet"
    same = [job for job in detail.jobs if job.outcome == run.outcome]
    if run.outcome == Outcome.CANCELLED.value:
        return sign, f"by {run.cancel_by}" if run.cancel_by else ""
    where = f"on {len(same)} of {count(total, 'device')}"
    names = [job.device.name for job in same if job.device]
    if run.outcome == Outcome.PASSED.value or not names or len(names) > 3:
        return sign, where
    ends = [job.attempts[-1] for job in same if job.attempts]
    whose = dict.fromkeys(end.words for end in ends if end.words and is_farm_trouble(end.outcome))
    return sign, f"{where}: {', '.join(names)}" + (f"; {'; '.join(whose)}" if whose else "")


def view(detail: RunDetail) -> dict[str, object]:
    """Everything that the template shows of a run."""
    attempts = [attempt for job in detail.jobs for attempt in job.attempts]
    sign, said = answer(detail)
    order = [column.device.id for column in detail.matrix.columns if column.device]
    drawn = timeline(attempts, detail.temperatures, detail.at)
    trouble = [a for a in attempts if a.retried or is_farm_trouble(a.outcome)]
    return {
        "detail": detail,
        "incidents": incidents.groups(detail.incidents),
        "run": detail.run,
        "sign": sign,
        "answer": said,
        "live": detail.run.outcome is None,
        "uncollected": _uncollected(detail),
        "waiting": [job for job in detail.jobs if not job.attempts and job.outcome is None],
        "attempts": [(job, attempt, attempt_sign(attempt)) for job in detail.jobs for attempt in job.attempts],
        "trouble": trouble,
        "trouble_of": Counter(a.blame for a in trouble if a.blame),
        "timeline": drawn,
        # No hole on the page: the list of attempts stands under the shorter one, and an attempt in the timeline is
        # about as tall as two tests in the matrix.
        "attempts_left": drawn is not None and 2 * len(attempts) > len(detail.matrix.rows),
        "groups": groups(detail.measurements, order),
        "facts": facts(detail.measurements, order),
        "stages": stage_table(detail.stages),
        "again": again_words(detail.jobs),
    }


def again_words(jobs: Sequence[JobRow]) -> str | None:
    """What the button says that runs once more what did not pass; None when there is nothing such."""
    left = [job.outcome for job in jobs if job.outcome not in (None, Outcome.PASSED.value)]
    if not left:
        return None
    if len(left) == len(jobs):
        return "run again"
    if all(signs.of_outcome(outcome).colour == Colour.BAD.value for outcome in left):
        return "run the failed job again" if len(left) == 1 else f"run the {len(left)} failed jobs again"
    return f"run {count(len(left), 'job')} that did not pass again"


def _uncollected(detail: RunDetail) -> set[int]:
    """Jobs that have not ended and do not know their tests yet: in the matrix they wait, they do not lack the test."""
    known = {cell.attempt_id for row in detail.matrix.rows for cell in row.cells if cell}
    return {
        job.id
        for job in detail.jobs
        if job.outcome is None and not any(attempt.id in known for attempt in job.attempts)
    }


def attempt_sign(attempt: AttemptRow) -> Sign:
    """Its outcome; while it lasts, its phase."""
    if attempt.outcome is not None:
        return signs.of_outcome(attempt.outcome, attempt.words)
    if attempt.cancel_at is not None:
        return signs.CANCELLING
    if attempt.phase == "settle":
        return Sign("half", "cool", "settle", attempt.waiting_for or "")
    return Sign("quarter", "accent", attempt.phase, attempt.waiting_for or "")


def add(routes: APIRouter, house: House) -> None:
    def show(request: Request, template: str, run_id: int) -> Response:
        viewer = house.viewer(request)
        with house.context.db.read() as session:
            found = reads.run(session, run_id, house.context.clock())
        if found is None:
            raise gone("run", run_id, ("/runs", "to the runs"))
        return house.page(request, template, {**view(found), "may": house.may_submit(viewer)}, viewer=viewer)

    def refuse_other_teams(request: Request, run_id: int) -> dict[str, object]:
        """What the audit log tells of the run."""
        with house.context.db.read() as session:
            found = session.get(Run, run_id)
        if found is not None and not house.context.principal(request).may_act_for(found.team):
            why = "They or an operator may do that."
            raise PageError(403, f"Run {run_id} is team {found.team}'s", why, _back(run_id))
        return {} if found is None else {"title": found.title, "team": found.team, "was": found.state}

    @routes.get("/runs/{run_id:int}")
    def page(request: Request, run_id: RunId) -> Response:
        return show(request, "run.html", run_id)

    @routes.get("/ui/runs/{run_id:int}")
    def piece(request: Request, run_id: RunId) -> Response:
        return show(request, "run_live.html", run_id)

    @routes.post("/ui/runs/{run_id:int}/cancel", dependencies=[house.context.needs(Scope.SUBMIT, "run.cancel")])
    def cancel(request: Request, run_id: RunId) -> Response:
        from farm.work import submit

        viewer = house.viewer(request)
        note = house.context.note(request)
        note.target, note.detail = f"run {run_id}", refuse_other_teams(request, run_id)
        try:
            submit.cancel(house.context.db, run_id, viewer.name)
        except submit.Refused as refusal:
            raise PageError(409, "It was not cancelled", refusal.message, _back(run_id)) from None
        return RedirectResponse(f"/runs/{run_id}", 303)

    @routes.post("/ui/runs/{run_id:int}/rerun", dependencies=[house.context.needs(Scope.SUBMIT, "run.rerun")])
    def rerun(request: Request, run_id: RunId) -> Response:
        from farm.work import submit

        viewer = house.viewer(request)
        note = house.context.note(request)
        refuse_other_teams(request, run_id)
        try:
            again = submit.rerun_failed(house.context.db, run_id, viewer.name)
        except submit.Refused as refusal:
            raise PageError(409, "It was not run again", refusal.message, _back(run_id)) from None
        note.target, note.detail = f"run {again}", {"of": run_id}
        return RedirectResponse(f"/runs/{again}", 303)


def _back(run_id: int) -> tuple[str, str]:
    return f"/runs/{run_id}", f"back to run {run_id}"
