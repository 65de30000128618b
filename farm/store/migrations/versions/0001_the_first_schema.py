"""The first schema"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.store.tables import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_fleet()
    create_builds()
    create_work()
    create_results()
    create_rest()


def create_fleet() -> None:
    op.create_table(
        "hosts",
        sa.Column("name", sa.String(length=100), primary_key=True),
        sa.Column("seen_at", UtcDateTime(), nullable=True),
        sa.Column("drained", sa.Boolean(), nullable=False),
        sa.Column("info", sa.JSON(), nullable=False),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("serial", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=100), nullable=False),
        sa.Column("virtual", sa.Boolean(), nullable=False),
        sa.Column("listed", sa.Boolean(), nullable=False),
        sa.Column("type", sa.String(length=100), nullable=True),
        sa.Column("pool", sa.String(length=100), nullable=True),
        sa.Column("ring", sa.Integer(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("address", sa.String(length=200), nullable=True),
        sa.Column("connection", sa.String(length=20), nullable=False),
        sa.Column("connection_at", UtcDateTime(), nullable=True),
        sa.Column("seen_at", UtcDateTime(), nullable=True),
        sa.Column("health", sa.String(length=20), nullable=False),
        sa.Column("health_reason", sa.Text(), nullable=True),
        sa.Column("health_by", sa.String(length=100), nullable=True),
        sa.Column("health_at", UtcDateTime(), nullable=True),
        sa.Column("health_until", UtcDateTime(), nullable=True),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("battery_pct", sa.Integer(), nullable=True),
        sa.Column("has_battery", sa.Boolean(), nullable=True),
        sa.Column("boot_completed", sa.Boolean(), nullable=True),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("readiness_at", UtcDateTime(), nullable=True),
        sa.Column("fingerprint_id", sa.Integer(), nullable=True),
        sa.Column("infra_errors", sa.Integer(), nullable=False),
        sa.Column("last_bundle", sa.String(length=64), nullable=True),
        sa.Column("last_token", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host"], ["hosts.name"], name=op.f("fk_devices_host_hosts")),
        sa.UniqueConstraint("serial", name=op.f("uq_devices_serial")),
    )
    op.create_index(op.f("ix_devices_host"), "devices", ["host"], unique=False)
    op.create_table(
        "device_events",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_device_events_device_id_devices")),
    )
    op.create_index("ix_device_events_device_id_kind_at", "device_events", ["device_id", "kind", "at"], unique=False)
    op.create_table(
        "fingerprints",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("first_seen", UtcDateTime(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_fingerprints_device_id_devices")),
        sa.UniqueConstraint("device_id", "hash", name=op.f("uq_fingerprints_device_id")),
    )


def create_builds() -> None:
    op.create_table(
        "bundles",
        sa.Column("hash", sa.String(length=64), primary_key=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("git_sha", sa.String(length=64), nullable=True),
        sa.Column("adapter", sa.String(length=40), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=True),
    )
    op.create_index(op.f("ix_bundles_name"), "bundles", ["name"], unique=False)
    op.create_table(
        "suite_packs",
        sa.Column("hash", sa.String(length=64), primary_key=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=True),
    )
    op.create_index(op.f("ix_suite_packs_name"), "suite_packs", ["name"], unique=False)


def create_work() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("klass", sa.String(length=20), nullable=False),
        sa.Column("team", sa.String(length=100), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("bundle_hash", sa.String(length=64), nullable=False),
        sa.Column("pack_hash", sa.String(length=64), nullable=False),
        sa.Column("suites", sa.JSON(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_by", sa.String(length=100), nullable=True),
        sa.Column("idempotency_key", sa.String(length=100), nullable=True),
        sa.ForeignKeyConstraint(["bundle_hash"], ["bundles.hash"], name=op.f("fk_runs_bundle_hash_bundles")),
        sa.ForeignKeyConstraint(["pack_hash"], ["suite_packs.hash"], name=op.f("fk_runs_pack_hash_suite_packs")),
        sa.UniqueConstraint("team", "idempotency_key", name="uq_runs_team_idempotency_key"),
    )
    op.create_index(op.f("ix_runs_bundle_hash"), "runs", ["bundle_hash"], unique=False)
    op.create_index(op.f("ix_runs_created_at"), "runs", ["created_at"], unique=False)
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=True),
        sa.Column("suites", sa.JSON(), nullable=False),
        sa.Column("tests", sa.JSON(), nullable=True),
        sa.Column("klass", sa.String(length=20), nullable=False),
        sa.Column("queued_at", UtcDateTime(), nullable=False),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("avoid", sa.JSON(), nullable=False),
        sa.Column("wait_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_jobs_device_id_devices")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_jobs_run_id_runs")),
    )
    op.create_index(op.f("ix_jobs_run_id"), "jobs", ["run_id"], unique=False)
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=100), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("late_outcome", sa.String(length=20), nullable=True),
        sa.Column("late_reason", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_at", UtcDateTime(), nullable=True),
        sa.Column("workflow_id", sa.String(length=100), nullable=False),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_attempts_device_id_devices")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id_jobs")),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_attempts_job_id")),
        sa.UniqueConstraint("workflow_id", name=op.f("uq_attempts_workflow_id")),
    )
    op.create_index(op.f("ix_attempts_device_id"), "attempts", ["device_id"], unique=False)
    op.create_index(op.f("ix_attempts_job_id"), "attempts", ["job_id"], unique=False)
    op.create_index(op.f("ix_attempts_phase"), "attempts", ["phase"], unique=False)
    op.create_table(
        "attempt_phases",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_attempt_phases_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "phase", name=op.f("pk_attempt_phases")),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(length=60), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("granted_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_by", UtcDateTime(), nullable=False),
        sa.Column("ends_at", UtcDateTime(), nullable=False),
        sa.Column("released_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("end_reason", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_leases_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_leases_device_id_devices")),
        sa.UniqueConstraint("device_id", "token", name=op.f("uq_leases_device_id")),
    )
    op.create_index(op.f("ix_leases_attempt_id"), "leases", ["attempt_id"], unique=False)
    op.create_index(op.f("ix_leases_device_id"), "leases", ["device_id"], unique=False)
    op.create_index(op.f("ix_leases_holder"), "leases", ["holder"], unique=False)
    op.create_index(
        "uq_leases_open_device",
        "leases",
        ["device_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "journal_marks",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_journal_marks_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "seq", name=op.f("pk_journal_marks")),
    )


def create_results() -> None:
    op.create_table(
        "tests",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.String(length=500), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("cause", sa.String(length=20), nullable=True),
        sa.Column("began_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_tests_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "test_id", name=op.f("pk_tests")),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.String(length=500), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("fingerprint_id", sa.Integer(), nullable=True),
        sa.Column("temperature_band", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("unit", sa.String(length=40), nullable=False),
        sa.Column("better", sa.String(length=10), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("marks", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_measurements_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_measurements_device_id_devices")),
        sa.UniqueConstraint("attempt_id", "seq", name=op.f("uq_measurements_attempt_id")),
    )
    op.create_index(op.f("ix_measurements_attempt_id"), "measurements", ["attempt_id"], unique=False)
    op.create_index("ix_measurements_device_id_name_at", "measurements", ["device_id", "name", "at"], unique=False)
    op.create_table(
        "series_chunks",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("unit", sa.String(length=40), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_series_chunks_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_series_chunks_device_id_devices")),
        sa.PrimaryKeyConstraint("attempt_id", "seq", name=op.f("pk_series_chunks")),
    )
    op.create_table(
        "stages",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.String(length=500), nullable=True),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("counters", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_stages_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_stages_device_id_devices")),
        sa.PrimaryKeyConstraint("attempt_id", "seq", name=op.f("pk_stages")),
    )
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("test_id", sa.String(length=500), nullable=True),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("klass", sa.String(length=60), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("artifact", sa.String(length=300), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_incidents_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_incidents_device_id_devices")),
        sa.UniqueConstraint("attempt_id", "seq", name=op.f("uq_incidents_attempt_id")),
    )
    op.create_index(op.f("ix_incidents_attempt_id"), "incidents", ["attempt_id"], unique=False)
    op.create_index(op.f("ix_incidents_device_id"), "incidents", ["device_id"], unique=False)
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.String(length=500), nullable=True),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("media_type", sa.String(length=100), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_artifacts_attempt_id_attempts")),
        sa.UniqueConstraint("attempt_id", "name", name=op.f("uq_artifacts_attempt_id")),
    )
    op.create_index(op.f("ix_artifacts_attempt_id"), "artifacts", ["attempt_id"], unique=False)


def create_rest() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("team", sa.String(length=100), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("used_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.String(length=100), primary_key=True),
        sa.Column("value", sa.JSON(), nullable=False),
    )
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("topic", sa.String(length=40), nullable=False),
        sa.Column("ref", sa.String(length=100), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("device_id", sa.Integer(), nullable=True),
    )


def downgrade() -> None:
    drop("changes", "settings", "tokens", "users", "artifacts")
    drop("incidents", "stages", "series_chunks", "measurements", "tests", "journal_marks")
    drop("leases", "attempt_phases", "attempts", "jobs", "runs", "suite_packs")
    drop("bundles", "fingerprints", "device_events", "devices", "hosts")


def drop(*tables: str) -> None:
    for table in tables:
        op.drop_table(table)
