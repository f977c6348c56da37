"""Groups of each claim, for quotas; who waits for a slice, so that a place outlives a restart of the hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add a column and a table."""
    op.add_column("vgpu_claims", sa.Column("groups", sa.JSON, nullable=False, server_default=sa.text("'[]'")))
    op.create_index("vgpu_claims_by_end", "vgpu_claims", ["hub", "released_at"])
    op.create_table(
        "vgpu_queue",
        sa.Column("place_id", sa.Integer, primary_key=True),
        sa.Column("hub", sa.String(255), nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("server_name", sa.String(255), nullable=False),
        sa.Column("profile", sa.String(255), nullable=False),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("left_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.String(40), nullable=False),
    )
    op.create_index("vgpu_queue_by_hub", "vgpu_queue", ["hub", "left_at"])


def downgrade() -> None:
    """Take them away again."""
    op.drop_table("vgpu_queue")
    op.drop_index("vgpu_claims_by_end", "vgpu_claims")
    op.drop_column("vgpu_claims", "groups")
