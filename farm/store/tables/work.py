"""What somebody submitted and how it went: runs, jobs, attempts, leases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class Run(Base):
    """What somebody submitted. `request` is the submission as accepted, so that it can be run again."""

    __tablename__ = "runs"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String(300))
    klass: Mapped[str] = mapped_column(String(20))  # debug, pr, manual, nightly
    team: Mapped[str] = mapped_column(String(100), default="default")
    created_by: Mapped[str | None] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(index=True)
    bundle_hash: Mapped[str] = mapped_column(ForeignKey("bundles.hash"), index=True)
    pack_hash: Mapped[str] = mapped_column(ForeignKey("suite_packs.hash"))
    suites: Mapped[list[Any]]
    selector: Mapped[str] = mapped_column(Text)
    request: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(20), default="queued", index=True)
    outcome: Mapped[str | None] = mapped_column(String(20))
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    cancel_at: Mapped[datetime | None]
    cancel_by: Mapped[str | None] = mapped_column(String(100))
    idempotency_key: Mapped[str | None] = mapped_column(String(100))  # the same key again is the same run
    token_id: Mapped[int | None]  # what it was submitted with: its quota counts
    gave_up: Mapped[str | None] = mapped_column(Text)  # why it stopped trying
    __table_args__ = (UniqueConstraint("team", "idempotency_key", name="uq_runs_team_idempotency_key"),)


class Job(Base):
    """One set of tests for one device slot; the planner's unit. `tests` None: all of the suites."""

    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    ordinal: Mapped[int]
    selector: Mapped[str] = mapped_column(Text)
    device_id: Mapped[int | None] = mapped_column(ForeignKey("devices.id"))  # pinned by the matrix
    suites: Mapped[list[Any]]
    tests: Mapped[list[Any] | None]
    klass: Mapped[str] = mapped_column(String(20))
    queued_at: Mapped[datetime]  # kept over retries: a retry keeps its place
    not_before: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(String(20), default="queued", index=True)
    outcome: Mapped[str | None] = mapped_column(String(20))
    avoid: Mapped[list[Any]] = mapped_column(default=list)  # device ids of failed attempts
    wait_reason: Mapped[str | None] = mapped_column(Text)
    shard: Mapped[int | None]  # of a suite split by duration: which part, from 0
    estimate_s: Mapped[float | None]  # learnt duration, as the planner last knew it
    estimated_start_at: Mapped[datetime | None]  # the newest estimate
    first_estimated_start_at: Mapped[datetime | None]  # the one given when it was queued, to judge estimates by
    confirms_job_id: Mapped[int | None]  # runs another job's failure again on a second device


class Attempt(Base):
    """One try of a job under its lease. `phase` and `token` decide what a step may do; DBOS only re-enters."""

    __tablename__ = "attempts"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), index=True)
    number: Mapped[int]
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"), index=True)
    host: Mapped[str] = mapped_column(String(100))
    token: Mapped[int]
    phase: Mapped[str] = mapped_column(String(20), default="planned", index=True)
    outcome: Mapped[str | None] = mapped_column(String(20))
    reason: Mapped[str | None] = mapped_column(Text)
    late_outcome: Mapped[str | None] = mapped_column(String(20))  # a truth that came after the first cause
    late_reason: Mapped[str | None] = mapped_column(Text)
    late_at: Mapped[datetime | None]  # its host, lost before, has sent what it kept of it
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    cancel_at: Mapped[datetime | None]
    workflow_id: Mapped[str] = mapped_column(String(100), unique=True)
    waiting_for: Mapped[str | None] = mapped_column(Text)  # what the current step waits for, shown live
    blame: Mapped[str | None] = mapped_column(String(20))  # from the table of outcomes, with the cause known
    cause: Mapped[str | None] = mapped_column(String(60))  # of a closed list: which row of the table
    deployment: Mapped[str | None] = mapped_column(String(40))  # farm.domain.deployments; None: says nothing of it
    peak_bytes: Mapped[int | None] = mapped_column(BigInteger)  # most memory of its engine; None: not measured
    __table_args__ = (UniqueConstraint("job_id", "number"),)


class AttemptPhase(Base):
    """Timeline: when each phase began and ended."""

    __tablename__ = "attempt_phases"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    phase: Mapped[str] = mapped_column(String(20), primary_key=True)
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Lease(Base):
    """A grant. One open row per device: the unique partial index is the lock, taken by INSERT."""

    __tablename__ = "leases"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"), index=True)
    holder: Mapped[str] = mapped_column(String(60), index=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    token: Mapped[int]
    granted_at: Mapped[datetime]
    heartbeat_by: Mapped[datetime]
    ends_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None] = mapped_column(String(200))
    team: Mapped[str | None] = mapped_column(String(100))
    user: Mapped[str | None] = mapped_column(String(100))
    extensions: Mapped[int] = mapped_column(default=0, server_default="0")
    preempted_by: Mapped[str | None] = mapped_column(String(100))  # the operator; `end_reason` says why
    warned_at: Mapped[datetime | None]  # its holder was told that the end is near
    __table_args__ = (
        Index(
            "uq_leases_open_device",
            "device_id",
            unique=True,
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
        UniqueConstraint("device_id", "token"),
    )


class Reservation(Base):
    """A wish for a lease, now or later; a lease once it begins (`lease_id`). Planned like a job of class debug."""

    __tablename__ = "reservations"
    id: Mapped[int] = mapped_column(primary_key=True)
    selector: Mapped[str] = mapped_column(Text)
    device_id: Mapped[int | None] = mapped_column(ForeignKey("devices.id"))  # the one device asked for
    team: Mapped[str] = mapped_column(String(100), default="default")
    created_by: Mapped[str] = mapped_column(String(100))
    token_id: Mapped[int | None]
    purpose: Mapped[str | None] = mapped_column(String(300))
    created_at: Mapped[datetime]
    begins_at: Mapped[datetime]  # not before
    lasts_s: Mapped[float]
    wait_until: Mapped[datetime | None]  # gives up then; None: waits for ever
    state: Mapped[str] = mapped_column(String(20), default="queued", index=True)  # queued, active, ended
    lease_id: Mapped[int | None] = mapped_column(ForeignKey("leases.id"), index=True)
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None] = mapped_column(String(200))
    wait_reason: Mapped[str | None] = mapped_column(Text)
    ready_at: Mapped[datetime | None]  # the device is as it shall be given back: its holder may begin


class Duration(Base):
    """How long something took before: learnt per kind and name, for a bundle's name and a device type.

    `recent` holds the newest values in seconds, oldest first, at most 30.
    """

    __tablename__ = "durations"
    kind: Mapped[str] = mapped_column(String(20), primary_key=True)  # suite, test, overhead
    name: Mapped[str] = mapped_column(String(500), primary_key=True)
    bundle: Mapped[str] = mapped_column(String(200), primary_key=True)
    device_type: Mapped[str] = mapped_column(String(100), primary_key=True)
    recent: Mapped[list[Any]] = mapped_column(default=list)
    at: Mapped[datetime]
