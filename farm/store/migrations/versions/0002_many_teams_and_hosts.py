"""Many teams and hosts: holds, alerts, notes, reservations, learnt durations, teams, the audit log"""

from __future__ import annotations

from datetime import UTC, datetime

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
    fill_people()


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
        sa.Column("ready_at", UtcDateTime(), nullable=True),
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
    op.create_table(
        "pending_logins",
        sa.Column("state_sha256", sa.String(length=64), nullable=False),
        sa.Column("nonce", sa.String(length=100), nullable=False),
        sa.Column("verifier", sa.String(length=128), nullable=False),
        sa.Column("target", sa.String(length=2000), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("state_sha256", name="pk_pending_logins"),
    )
    op.create_index("ix_pending_logins_expires_at", "pending_logins", ["expires_at"], unique=False)


def add_columns() -> None:
    op.add_column("attempts", sa.Column("blame", sa.String(length=20), nullable=True))
    op.add_column("attempts", sa.Column("cause", sa.String(length=60), nullable=True))
    op.add_column("devices", sa.Column("strikes", sa.Integer(), server_default="0", nullable=False))
    op.add_column("devices", sa.Column("used_s", sa.Double(), server_default="0", nullable=False))
    op.add_column("devices", sa.Column("health_action", sa.Text(), nullable=True))
    op.add_column("devices", sa.Column("health_log", sa.Text(), nullable=True))
    op.add_column("devices", sa.Column("hot_since", UtcDateTime(), nullable=True))
    op.add_column("devices", sa.Column("low_since", UtcDateTime(), nullable=True))
    op.add_column("devices", sa.Column("free_bytes", sa.BigInteger(), nullable=True))
    op.add_column("devices", sa.Column("clock_skew_s", sa.Double(), nullable=True))
    op.add_column("hosts", sa.Column("incarnation", sa.String(length=64), nullable=True))
    op.add_column("hosts", sa.Column("lost_at", UtcDateTime(), nullable=True))
    op.add_column("hosts", sa.Column("channel_hash", sa.String(length=64), nullable=True))
    op.add_column("runs", sa.Column("gave_up", sa.Text(), nullable=True))
    op.add_column("incidents", sa.Column("count", sa.Integer(), server_default="1", nullable=False))
    op.add_column("jobs", sa.Column("shard", sa.Integer(), nullable=True))
    op.add_column("jobs", sa.Column("estimate_s", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("estimated_start_at", UtcDateTime(), nullable=True))
    op.add_column("jobs", sa.Column("first_estimated_start_at", UtcDateTime(), nullable=True))
    op.add_column("jobs", sa.Column("confirms_job_id", sa.Integer(), nullable=True))
    op.add_column("leases", sa.Column("team", sa.String(length=100), nullable=True))
    op.add_column("leases", sa.Column("user", sa.String(length=100), nullable=True))
    op.add_column("leases", sa.Column("extensions", sa.Integer(), server_default="0", nullable=False))
    op.add_column("leases", sa.Column("preempted_by", sa.String(length=100), nullable=True))
    op.add_column("leases", sa.Column("warned_at", UtcDateTime(), nullable=True))
    op.add_column("runs", sa.Column("token_id", sa.Integer(), nullable=True))
    op.add_column("tokens", sa.Column("max_devices", sa.Integer(), nullable=True))
    op.add_column("tokens", sa.Column("max_waiting", sa.Integer(), nullable=True))
    op.add_column("users", sa.Column("issuer", sa.String(length=300), nullable=True))
    op.add_column("users", sa.Column("subject", sa.String(length=300), nullable=True))
    op.add_column("users", sa.Column("disabled_at", UtcDateTime(), nullable=True))
    op.create_index("uq_users_subject", "users", ["issuer", "subject"], unique=True)
    op.add_column("tokens", sa.Column("team", sa.String(length=100), nullable=True))
    op.add_column("tokens", sa.Column("parent_id", sa.Integer(), nullable=True))


def fill_people() -> None:
    """Every team that is named gets its row; a user's role becomes one that covers the tokens made for it so far."""
    connection = op.get_bind()
    teams = connection.execute(sa.text("SELECT team FROM users UNION SELECT team FROM runs UNION SELECT 'default'"))
    table = sa.table("teams", sa.column("name"), sa.column("weight"), sa.column("created_at", UtcDateTime()))
    now = datetime.now(UTC)
    op.bulk_insert(table, [{"name": name, "weight": 1.0, "created_at": now} for (name,) in teams])
    tokens = sa.table("tokens", sa.column("user_id"), sa.column("scopes", sa.JSON()))
    wide = connection.execute(sa.select(tokens.c.user_id, tokens.c.scopes)).all()
    users = sa.table("users", sa.column("id"), sa.column("role"))
    for scope, role in (("operate", "operator"), ("admin", "admin")):
        owners = {owner for owner, scopes in wide if scope in scopes}
        connection.execute(sa.update(users).where(users.c.id.in_(owners)).values(role=role))
