"""Claims, their events, and facts about the ledger itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "vgpu_meta",
        sa.Column("key", sa.String(40), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "vgpu_claims",
        sa.Column("entry_id", sa.Integer, primary_key=True),
        sa.Column("claim_id", sa.String(80), unique=True),
        sa.Column("hub", sa.String(255), nullable=False),
        sa.Column("tenant", sa.String(600), nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("server_name", sa.String(255), nullable=False),
        sa.Column("profile", sa.String(255), nullable=False),
        sa.Column("backend", sa.String(40), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bound_at", sa.DateTime(timezone=True)),
        sa.Column("released_at", sa.DateTime(timezone=True)),
        sa.Column("ended_because", sa.Text, nullable=False),
    )
    op.create_index("vgpu_claims_by_server", "vgpu_claims", ["hub", "user_name", "server_name", "state"])
    op.create_table(
        "vgpu_events",
        sa.Column("event_id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("vgpu_claims.entry_id"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_vgpu_events_entry_id", "vgpu_events", ["entry_id"])


def downgrade() -> None:
    """Remove the tables."""
    for table in ("vgpu_events", "vgpu_claims", "vgpu_meta"):
        op.drop_table(table)
