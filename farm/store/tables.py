"""Every table. Facts only: what can be computed (availability, a run's progress) is not stored.

Times are UTC. Text that may be long (logs, traces, dumps) is never in a row: it is an artifact, a file addressed by
hash. JSON columns hold small, bounded structures. Rows about a device carry the lease token of who wrote them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base as Base
from farm.store.base import UtcDateTime as UtcDateTime


class Host(Base):
    """A machine with devices on it. `info`: agent version, adb version, platform, measure_slots."""

    __tablename__ = "hosts"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    seen_at: Mapped[datetime | None]
    drained: Mapped[bool] = mapped_column(default=False)
    info: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Device(Base):
    """A device by its own serial number; address and transport id are where it was last found."""

    __tablename__ = "devices"
    id: Mapped[int] = mapped_column(primary_key=True)
    serial: Mapped[str] = mapped_column(String(200), unique=True)
    name: Mapped[str] = mapped_column(String(200))
    host: Mapped[str] = mapped_column(ForeignKey("hosts.name"), index=True)
    virtual: Mapped[bool] = mapped_column(default=False)
    listed: Mapped[bool] = mapped_column(default=False)
    type: Mapped[str | None] = mapped_column(String(100))
    pool: Mapped[str | None] = mapped_column(String(100))
    ring: Mapped[int | None]
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str | None] = mapped_column(String(200))
    connection: Mapped[str] = mapped_column(String(20), default="gone")
    connection_at: Mapped[datetime | None]
    seen_at: Mapped[datetime | None]
    health: Mapped[str] = mapped_column(String(20), default="good")
    health_reason: Mapped[str | None] = mapped_column(Text)
    health_by: Mapped[str | None] = mapped_column(String(100))
    health_at: Mapped[datetime | None]
    health_until: Mapped[datetime | None]
    temperature_c: Mapped[float | None]
    battery_pct: Mapped[int | None]
    has_battery: Mapped[bool | None]
    boot_completed: Mapped[bool | None]
    boot_id: Mapped[str | None] = mapped_column(String(64))
    readiness_at: Mapped[datetime | None]
    fingerprint_id: Mapped[int | None]
    infra_errors: Mapped[int] = mapped_column(default=0)
    last_bundle: Mapped[str | None] = mapped_column(String(64))
    last_token: Mapped[int] = mapped_column(default=0)  # the newest lease token granted on it


class DeviceEvent(Base):
    """History of a device: connection changes, health changes, leases, reboots, heat. Append only."""

    __tablename__ = "device_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(40))
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    __table_args__ = (Index("ix_device_events_device_id_kind_at", "device_id", "kind", "at"),)


class Fingerprint(Base):
    """What a device is and can do, as measured; a new row when the facts' hash changes."""

    __tablename__ = "fingerprints"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    hash: Mapped[str] = mapped_column(String(64))
    facts: Mapped[dict[str, Any]]
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    __table_args__ = (UniqueConstraint("device_id", "hash"),)


class Bundle(Base):
    """An engine build with models, addressed by the hash of its manifest (which holds the hash of every file)."""

    __tablename__ = "bundles"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), index=True)
    version: Mapped[str] = mapped_column(String(100))
    git_sha: Mapped[str | None] = mapped_column(String(64))
    adapter: Mapped[str] = mapped_column(String(40))
    manifest: Mapped[dict[str, Any]]
    bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(100))


class SuitePack(Base):
    """A folder of pytest files with a manifest, addressed like a bundle."""

    __tablename__ = "suite_packs"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), index=True)
    manifest: Mapped[dict[str, Any]]
    bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(100))


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
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    cancel_at: Mapped[datetime | None]
    workflow_id: Mapped[str] = mapped_column(String(100), unique=True)
    waiting_for: Mapped[str | None] = mapped_column(Text)  # what the current step waits for, shown live
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


class JournalMark(Base):
    """Which journal records have been applied: the primary key makes shipping twice harmless."""

    __tablename__ = "journal_marks"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    late: Mapped[bool] = mapped_column(default=False)  # came under a stale token: kept, not applied


class Test(Base):
    """One test of one attempt, from its first sign to its end."""

    __test__ = False
    __tablename__ = "tests"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    test_id: Mapped[str] = mapped_column(String(500), primary_key=True)
    ordinal: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[str | None] = mapped_column(String(20))  # None: waiting or running
    cause: Mapped[str | None] = mapped_column(String(20))
    began_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    duration_s: Mapped[float | None]
    message: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)


class Measurement(Base):
    """A list of values with unit and direction, bound to test, attempt, device, fingerprint and temperature band."""

    __tablename__ = "measurements"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    seq: Mapped[int]
    test_id: Mapped[str] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    fingerprint_id: Mapped[int | None]
    temperature_band: Mapped[str] = mapped_column(String(20))
    name: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    better: Mapped[str] = mapped_column(String(10))
    values: Mapped[list[Any]]
    marks: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    at: Mapped[datetime]
    __table_args__ = (
        UniqueConstraint("attempt_id", "seq"),
        Index("ix_measurements_device_id_name_at", "device_id", "name", "at"),
    )


class SeriesChunk(Base):
    """A piece of a time series: `data` is zstd over little-endian float64 pairs (t seconds since the epoch, value)."""

    __tablename__ = "series_chunks"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    name: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime]
    count: Mapped[int]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class Stage(Base):
    """An engine stage (load.open, prefill, …) as the engine reported it, for the breakdown per device."""

    __tablename__ = "stages"
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    test_id: Mapped[str | None] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    name: Mapped[str] = mapped_column(String(100))
    began_at: Mapped[datetime]
    duration_s: Mapped[float]
    counters: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Incident(Base):
    """Something that went wrong on a device, with its evidence (bounded lines; the whole is an artifact)."""

    __tablename__ = "incidents"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    seq: Mapped[int | None]
    test_id: Mapped[str | None] = mapped_column(String(500))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"), index=True)
    at: Mapped[datetime]
    klass: Mapped[str] = mapped_column(String(60))
    summary: Mapped[str] = mapped_column(Text)
    evidence: Mapped[str | None] = mapped_column(Text)
    artifact: Mapped[str | None] = mapped_column(String(300))
    __table_args__ = (UniqueConstraint("attempt_id", "seq"),)


class Artifact(Base):
    """A collected file in the content-addressed store."""

    __tablename__ = "artifacts"
    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), index=True)
    test_id: Mapped[str | None] = mapped_column(String(500))
    name: Mapped[str] = mapped_column(String(300))
    media_type: Mapped[str] = mapped_column(String(100))
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    at: Mapped[datetime]
    __table_args__ = (UniqueConstraint("attempt_id", "name"),)


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    team: Mapped[str] = mapped_column(String(100), default="default")
    role: Mapped[str] = mapped_column(String(20), default="member")
    created_at: Mapped[datetime]


class Token(Base):
    """A bearer token, stored as its SHA-256. `scopes`: submit, read, reserve, operate, admin."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[Any]]
    kind: Mapped[str] = mapped_column(String(20), default="token")  # token, session
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Setting(Base):
    """Small facts about this farm: its secret's id, server start time, inventory hash."""

    __tablename__ = "settings"
    key: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[dict[str, Any]]


class Change(Base):
    """What changed, in order: the source of live pages. `topic` is a noun, `ref` its id; pruned after a day."""

    __tablename__ = "changes"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    topic: Mapped[str] = mapped_column(String(40))  # host, device, run, job, attempt, test, measurement, log
    ref: Mapped[str] = mapped_column(String(100))
    run_id: Mapped[int | None]
    device_id: Mapped[int | None]
