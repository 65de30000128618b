"""Hosts that come back: what arrived late of a lost attempt, and why a host must not be given work"""

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
