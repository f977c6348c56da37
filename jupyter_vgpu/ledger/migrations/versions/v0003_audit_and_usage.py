"""Who revoked; events without a claim, with who did it; what claims used, by the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_OF_THE_CLAIM = ("hub", "user_name", "server_name")


def upgrade() -> None:
    """Add columns and tables; tell each event that there is whose it was."""
    op.add_column("vgpu_claims", sa.Column("revoked_by", sa.Text, nullable=False, server_default=sa.text("''")))
    with op.batch_alter_table("vgpu_events") as events:
        events.alter_column("entry_id", existing_type=sa.Integer, nullable=True)
        for name in (*_OF_THE_CLAIM, "by_name"):
            events.add_column(sa.Column(name, sa.String(255), nullable=False, server_default=sa.text("''")))
    for name in _OF_THE_CLAIM:
        op.execute(
            f"UPDATE vgpu_events SET {name} = "
            f"(SELECT c.{name} FROM vgpu_claims c WHERE c.entry_id = vgpu_events.entry_id)"
        )
    op.create_index("vgpu_events_by_user", "vgpu_events", ["hub", "user_name", "event_id"])
    op.create_table(
        "vgpu_usage",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("vgpu_claims.entry_id"), primary_key=True),
        sa.Column("span_seconds", sa.Integer, primary_key=True),
        sa.Column("starts_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("gpu_seconds", sa.Double, nullable=False),
        sa.Column("memory_byte_seconds", sa.Double, nullable=False),
        sa.Column("waited_seconds", sa.Double, nullable=False),
    )
    op.create_index("vgpu_usage_by_time", "vgpu_usage", ["span_seconds", "starts_at"])
    op.create_table(
        "vgpu_readings",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("vgpu_claims.entry_id"), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gpu_seconds", sa.Double, nullable=False),
        sa.Column("waited_seconds", sa.Double, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Take them away again, with the events that are of no claim."""
    op.drop_table("vgpu_readings")
    op.drop_table("vgpu_usage")
    op.drop_index("vgpu_events_by_user", "vgpu_events")
    op.execute("DELETE FROM vgpu_events WHERE entry_id IS NULL")
    with op.batch_alter_table("vgpu_events") as events:
        for name in (*_OF_THE_CLAIM, "by_name"):
            events.drop_column(name)
        events.alter_column("entry_id", existing_type=sa.Integer, nullable=False)
    op.drop_column("vgpu_claims", "revoked_by")
