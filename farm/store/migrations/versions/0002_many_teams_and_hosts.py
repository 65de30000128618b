"""Many teams and hosts: holds, alerts, notes, reservations, learnt durations, teams, the audit log"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.store.tables import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_fleet()
    create_work()
    create_people()
    add_columns()


def create_fleet() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("ref", sa.String(length=200), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("cleared_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index(
        "uq_alerts_open",
        "alerts",
        ["kind", "ref"],
        unique=True,
        sqlite_where=sa.text("cleared_at IS NULL"),
        postgresql_where=sa.text("cleared_at IS NULL"),
    )
    op.create_table(
        "holds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(length=20), nullable=False),
        sa.Column("ref", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=True),
        sa.Column("lifted_at", UtcDateTime(), nullable=True),
        sa.Column("lifted_by", sa.String(length=100), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_holds"),
    )
    op.create_index("ix_holds_lifted_at", "holds", ["lifted_at"], unique=False)
    op.create_table(
        "device_notes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_device_notes_device_id_devices"),
        sa.PrimaryKeyConstraint("id", name="pk_device_notes"),
    )
    op.create_index("ix_device_notes_device_id", "device_notes", ["device_id"], unique=False)


def create_work() -> None:
    op.create_table(
        "durations",
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("bundle", sa.String(length=200), nullable=False),
        sa.Column("device_type", sa.String(length=100), nullable=False),
        sa.Column("recent", sa.JSON(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", "bundle", "device_type", name="pk_durations"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=True),
        sa.Column("team", sa.String(length=100), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("purpose", sa.String(length=300), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("begins_at", UtcDateTime(), nullable=False),
        sa.Column("lasts_s", sa.Double(), nullable=False),
        sa.Column("wait_until", UtcDateTime(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("lease_id", sa.Integer(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("end_reason", sa.String(length=200), nullable=True),
        sa.Column("wait_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_reservations_device_id_devices"),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name="fk_reservations_lease_id_leases"),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_lease_id", "reservations", ["lease_id"], unique=False)
    op.create_index("ix_reservations_state", "reservations", ["state"], unique=False)


def create_people() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("action", sa.String(length=60), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("address", sa.String(length=100), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"], unique=False)
    op.create_table(
        "teams",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("max_devices", sa.Integer(), nullable=True),
        sa.Column("max_waiting", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_teams"),
    )


def add_columns() -> None:
    op.add_column("attempts", sa.Column("blame", sa.String(length=20), nullable=True))
    op.add_column("attempts", sa.Column("cause", sa.String(length=60), nullable=True))
    op.add_column("devices", sa.Column("strikes", sa.Integer(), server_default="0", nullable=False))
    op.add_column("devices", sa.Column("used_s", sa.Double(), server_default="0", nullable=False))
    op.add_column("devices", sa.Column("health_action", sa.Text(), nullable=True))
    op.add_column("devices", sa.Column("health_log", sa.Text(), nullable=True))
    op.add_column("hosts", sa.Column("incarnation", sa.String(length=64), nullable=True))
    op.add_column("hosts", sa.Column("lost_at", UtcDateTime(), nullable=True))
    op.add_column("jobs", sa.Column("shard", sa.Integer(), nullable=True))
    op.add_column("jobs", sa.Column("estimate_s", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("estimated_start_at", UtcDateTime(), nullable=True))
    op.add_column("jobs", sa.Column("first_estimated_start_at", UtcDateTime(), nullable=True))
    op.add_column("jobs", sa.Column("confirms_job_id", sa.Integer(), nullable=True))
    op.add_column("leases", sa.Column("team", sa.String(length=100), nullable=True))
    op.add_column("leases", sa.Column("user", sa.String(length=100), nullable=True))
    op.add_column("leases", sa.Column("extensions", sa.Integer(), server_default="0", nullable=False))
    op.add_column("leases", sa.Column("preempted_by", sa.String(length=100), nullable=True))
    op.add_column("tokens", sa.Column("max_devices", sa.Integer(), nullable=True))
    op.add_column("tokens", sa.Column("max_waiting", sa.Integer(), nullable=True))
    op.add_column("users", sa.Column("issuer", sa.String(length=300), nullable=True))
    op.add_column("users", sa.Column("subject", sa.String(length=300), nullable=True))
    op.add_column("users", sa.Column("disabled_at", UtcDateTime(), nullable=True))
