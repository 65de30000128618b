"""The last step: what the attempt's end means for its job, its run and its device. One transaction, exactly once."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from farm.domain import health as rules
from farm.domain.causes import CAUSES, Cause, cause_of, ruling
from farm.domain.devices import Health
from farm.domain.jobs import decide
from farm.domain.leases import HEARTBEAT, Lease
from farm.domain.outcomes import HealthEffect, Outcome, Phase, State
from farm.store import deployments, devices, durations, leases, peaks, persistence, runs, tables
from farm.store.bus import touch
from farm.store.locks import hold_attempt, hold_device
from farm.work import confirm
from farm.work.step import Step, set_outcome

#: Pause before the n-th retry of a job, doubling: a device that fails fast must not eat the queue.
BACKOFF_S = 2.0
#: Ends after which it is asked whether the whole run should go on trying.
_TROUBLE = frozenset({Outcome.DEPLOY_FAILED, Outcome.DEVICE_LOST, Outcome.INFRA_ERROR})


def verdict(step: Step) -> None:
    """Judge, and clear the attempt's folder: everything worth keeping is in the store by now."""
    with step.work.db.session() as session:
        close(session, hold_attempt(session, step.id), step.work.db.now(session))
    shutil.rmtree(step.folder, ignore_errors=True)


def close(session: Session, attempt: tables.Attempt, now: datetime) -> None:
    """The attempt (held) is over; its job ends or is queued again at its old place. Does nothing the second time."""
    if attempt.phase == Phase.DONE.value:
        return
    set_outcome_if_none(attempt)
    attempt.phase, attempt.ended_at, attempt.waiting_for = Phase.DONE.value, now, None
    outcome = Outcome(attempt.outcome or Outcome.INFRA_ERROR)
    job = session.get_one(tables.Job, attempt.job_id)
    run = session.get_one(tables.Run, job.run_id)
    hold_device(session, attempt.device_id)
    _device(session, attempt, outcome, run.bundle_hash, now)
    touch(session, "attempt", attempt.id, at=now, run_id=run.id, device_id=attempt.device_id)
    session.flush()
    durations.learn(session, attempt, now)
    deployments.note(session, attempt)
    peaks.note(session, attempt)
    if job.state == State.ENDED.value:
        return
    ends = runs.attempt_ends(session, job.id)
    decision = decide(ends, cancelled=run.cancel_at is not None)
    if decision.outcome is not None:
        asked = confirm.ask(session, run, job, attempt.device_id, decision.outcome, now)
        reason = "; ".join(filter(None, (decision.reason, asked)))
        runs.end_job(session, job, decision.outcome, reason or None, now)
        if job.confirms_job_id is not None:
            confirm.tell(session, job, session.get_one(tables.Device, attempt.device_id).name, now)
        if outcome in _TROUBLE:
            persistence.stop_trying(session, run, now)
        return
    if (why := persistence.stop_trying(session, run, now)) is not None:
        persistence.end_for_good(session, job, why, now)
        return
    job.state, job.avoid = State.QUEUED.value, list(decision.avoid)
    job.not_before = now + timedelta(seconds=BACKOFF_S * 2 ** (len(ends) - 1))
    job.wait_reason = decision.reason
    touch(session, "job", job.id, at=now, run_id=run.id)


def set_outcome_if_none(attempt: tables.Attempt) -> None:
    if attempt.outcome is None:
        set_outcome(attempt, Outcome.INFRA_ERROR, f"the attempt ended in {attempt.phase} without an outcome")


def close_if_host_is_lost(session: Session, lease: Lease, now: datetime) -> None:
    """A lease fell silent: when its whole host did, nobody there can end the attempt, so its job goes on elsewhere.

    The lease stays open (released) until the host is back and has cleaned the device, or a person says so.
    """
    row = session.get_one(tables.Lease, lease.id)
    if row.attempt_id is None:
        return
    attempt = hold_attempt(session, row.attempt_id)
    host = session.get(tables.Host, attempt.host)
    if host is not None and host.seen_at is not None and now - host.seen_at < HEARTBEAT:
        return  # its host lives: the attempt's own step notices and ends it
    set_outcome(attempt, Outcome.INFRA_ERROR, f"its host {attempt.host} has been silent for too long", Cause.HOST_LOST)
    close(session, attempt, now)


def _device(session: Session, attempt: tables.Attempt, outcome: Outcome, bundle_hash: str, now: datetime) -> None:
    """What the end says about the device, and that no lease is left open by mistake."""
    row = session.get_one(tables.Device, attempt.device_id)
    cause = cause_of(attempt.cause)
    effect = ruling(outcome, cause).health
    deployed = session.get(tables.AttemptPhase, (attempt.id, Phase.DEPLOY.value))
    if deployed is not None and deployed.detail.get("verified") is not None:
        row.last_bundle = bundle_hash
    if effect is HealthEffect.GOOD:
        row.infra_errors = row.strikes = 0
    elif effect is HealthEffect.SUSPECT:
        row.infra_errors += 1
        words = f"attempt {attempt.id} ended {outcome.value}: {attempt.reason or ''}"[:500]
        standing = rules.after_strike(row.strikes, words, CAUSES[cause].action if cause else rules.advice(words))
        if row.health in (Health.GOOD.value, Health.SUSPECT.value):
            devices.put(session, row, standing, "verdict", now, log=[attempt.reason or ""])
        row.strikes = standing.strikes
    lease = leases.of_attempt(session, attempt.id, attempt.token)
    if lease is not None and lease.released_at is None:
        leases.release(session, lease.id, now, f"attempt {attempt.id} is over")
