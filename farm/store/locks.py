"""Rows that are read to be changed are locked first, so that two processes on one PostgreSQL do it one after the other.

The run's row stands for everything below it: whoever changes a run, its jobs or its attempts locks the run first, then,
if need be, a device, then its lease. That order is the same everywhere. On SQLite a write transaction is alone anyway.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.store import tables


def hold_run(session: Session, run_id: int) -> tables.Run:
    """The run as it is now, ours until the transaction ends. Raises NoResultFound."""
    return session.execute(
        select(tables.Run).where(tables.Run.id == run_id).with_for_update(), execution_options=_FRESH
    ).scalar_one()


def hold_job(session: Session, job_id: int) -> tables.Job:
    """The job as it is now; its run is locked. Raises NoResultFound."""
    hold_run(session, session.execute(select(tables.Job.run_id).where(tables.Job.id == job_id)).scalar_one())
    return session.execute(select(tables.Job).where(tables.Job.id == job_id), execution_options=_FRESH).scalar_one()


def hold_attempt(session: Session, attempt_id: int) -> tables.Attempt:
    """The attempt as it is now; its run is locked. Raises NoResultFound."""
    job_id = session.execute(select(tables.Attempt.job_id).where(tables.Attempt.id == attempt_id)).scalar_one()
    hold_job(session, job_id)
    return session.execute(
        select(tables.Attempt).where(tables.Attempt.id == attempt_id), execution_options=_FRESH
    ).scalar_one()


def hold_device(session: Session, device_id: int) -> tables.Device:
    """The device as it is now, ours until the transaction ends. Raises NoResultFound."""
    return session.execute(
        select(tables.Device).where(tables.Device.id == device_id).with_for_update(), execution_options=_FRESH
    ).scalar_one()


#: What the session had read before is read again: it may have been another's transaction that we waited for.
_FRESH = {"populate_existing": True}
