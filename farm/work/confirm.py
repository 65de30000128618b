"""A failure that is the engine's may be run once more on a second device of the model, and is shown beside the first.

The second job says nothing about the run's outcome: first cause wins. It tells whether the failure is the engine's
everywhere, or that one device's.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.causes import ruling
from farm.domain.devices import Availability, DeviceFacts, availability
from farm.domain.outcomes import Blame, Outcome
from farm.domain.selectors import SelectorError, parse
from farm.store import devices, runs, tables
from farm.store.bus import touch

_AWAY = frozenset({Availability.GONE, Availability.STALE, Availability.QUARANTINED, Availability.MAINTENANCE})


def second_device(job: tables.Job, first: DeviceFacts, fleet: list[DeviceFacts], now: datetime) -> DeviceFacts | None:
    """Another device of the model that may run the job: a ready one before one that is busy."""
    try:
        wanted = parse(job.selector)
    except SelectorError:
        return None
    model = _model(first)
    able = [
        (state is not Availability.READY, device.id, device)
        for device in fleet
        if device.id != first.id and model is not None and _model(device) == model
        for state in (availability(device, now)[0],)
        if state not in _AWAY and (job.device_id is not None or wanted.matches(device.facts()))
    ]
    return min(able)[2] if able else None


def _model(device: DeviceFacts) -> str | None:
    return device.type or device.labels.get("model")


def ask(
    session: Session, run: tables.Run, job: tables.Job, device_id: int, outcome: Outcome, now: datetime
) -> str | None:
    """Queue the confirmation of a job that ended so on this device; words for the job's reason, None: not wanted."""
    if not run.request.get("confirm") or job.confirms_job_id is not None or run.cancel_at is not None:
        return None
    if ruling(outcome).blame is not Blame.ENGINE:
        return None
    fleet = devices.facts(session)
    first = next((device for device in fleet if device.id == device_id), None)
    second = None if first is None else second_device(job, first, fleet, now)
    if second is None:
        return "not confirmed: there is no second usable device of the model"
    ordinal = session.scalar(select(func.max(tables.Job.ordinal)).where(tables.Job.run_id == run.id)) or 0
    row = tables.Job(
        run_id=run.id,
        ordinal=ordinal + 1,
        selector=job.selector,
        device_id=second.id,
        suites=job.suites,
        tests=_failed(session, job.id) or job.tests,
        klass=job.klass,
        queued_at=job.queued_at,
        avoid=[],
        confirms_job_id=job.id,
        wait_reason=f"confirms job {job.id} on a second device",
    )
    session.add(row)
    session.flush()
    touch(session, "job", row.id, at=now, run_id=run.id)
    return f"job {row.id} runs it again on {second.name}"


def tell(session: Session, confirming: tables.Job, device_name: str, now: datetime) -> None:
    """Write beside the first job what came of its confirmation."""
    first = session.get(tables.Job, confirming.confirms_job_id or 0)
    if first is None or confirming.outcome is None:
        return
    if confirming.outcome == Outcome.PASSED.value:
        words = f"not confirmed: it passed on {device_name} (job {confirming.id})"
    elif ruling(Outcome(confirming.outcome)).blame is Blame.ENGINE:
        words = f"confirmed: {confirming.outcome} on {device_name} too (job {confirming.id})"
    else:
        words = f"not confirmed: {confirming.outcome} on {device_name} (job {confirming.id})"
    first.wait_reason = f"{first.wait_reason}; {words}" if first.wait_reason else words
    touch(session, "job", first.id, at=now, run_id=first.run_id)


def _failed(session: Session, job_id: int) -> list[str]:
    """The tests that failed for good, in their order; a crash outside of any test leaves none."""
    ends = runs.attempt_ends(session, job_id)
    last = {end.test: end for attempt in ends for end in attempt.tests}
    return [test for test, end in last.items() if end.finished() and end.verdict() is not Outcome.PASSED]
