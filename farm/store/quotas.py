"""How much a team or a token may have waiting; what they may hold is the planner's matter (farm.store.queue)."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from farm.domain.outcomes import State
from farm.domain.words import count
from farm.store import tables


def too_many_waiting(session: Session, team: str, token_id: int | None, more: int) -> str | None:
    """Why `more` jobs may not be queued beside what waits already, with the figures; None when they may."""
    run, wish = tables.Run, tables.Reservation
    too_many = f"{count(more, 'more job is', 'more jobs are')} too many"
    limit = session.scalar(select(tables.Team.max_waiting).where(tables.Team.name == team))
    if limit is not None:
        waits = _waiting(session, run.team == team, wish.team == team)
        if waits + more > limit:
            return f"team {team} has {waits} waiting and may have {limit}: {too_many}"
    if token_id is None:
        return None
    limit = session.scalar(select(tables.Token.max_waiting).where(tables.Token.id == token_id))
    if limit is not None:
        waits = _waiting(session, run.token_id == token_id, wish.token_id == token_id)
        if waits + more > limit:
            return f"this token has {waits} waiting and may have {limit}: {too_many}"
    return None


def _waiting(session: Session, of_run: ColumnElement[bool], of_wish: ColumnElement[bool]) -> int:
    job, run, wish = tables.Job, tables.Run, tables.Reservation
    jobs = select(func.count()).select_from(job).join(run, run.id == job.run_id)
    queued = session.scalar(jobs.where(job.state == State.QUEUED.value, of_run)) or 0
    return queued + (session.scalar(select(func.count()).select_from(wish).where(wish.state == "queued", of_wish)) or 0)
