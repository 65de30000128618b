"""Hosts that come back: what arrived late of a lost attempt, why a host must not be given work; series in many kinds"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.store.tables import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("late_at", UtcDateTime(), nullable=True))
    op.add_column("hosts", sa.Column("unready", sa.Text(), nullable=True))
    create_clusters()
    op.add_column("attempts", sa.Column("deployment", sa.String(length=40), nullable=True))
    op.add_column("attempts", sa.Column("peak_bytes", sa.BigInteger(), nullable=True))
    create_series()


def create_series() -> None:
    op.create_table(
        "series_absences",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_series_absences_attempt_id_attempts"),
        sa.PrimaryKeyConstraint("attempt_id", "name", name="pk_series_absences"),
    )
    op.create_index("ix_series_chunks_ended_at", "series_chunks", ["ended_at"], unique=False)


def create_clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=True),
        sa.Column("named_by", sa.String(length=100), nullable=True),
        sa.Column("muted_at", UtcDateTime(), nullable=True),
        sa.Column("muted_by", sa.String(length=100), nullable=True),
        sa.Column("mute_reason", sa.String(length=300), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
    )
    op.create_table(
        "signatures",
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("klass", sa.String(length=80), nullable=False),
        sa.Column("basis", sa.String(length=20), nullable=False),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("first_seen", UtcDateTime(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_signatures_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("key", name="pk_signatures"),
    )
    op.create_index("ix_signatures_cluster_id", "signatures", ["cluster_id"], unique=False)
    op.add_column("incidents", sa.Column("signature", sa.String(length=16), nullable=True))
    op.create_index("ix_incidents_signature_at", "incidents", ["signature", "at"], unique=False)
