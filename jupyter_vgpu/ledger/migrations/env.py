"""Alembic runs this: on the connection that it is handed, never on one of its own."""

from __future__ import annotations

from alembic import context

from jupyter_vgpu.ledger.migrations import VERSION_TABLE
from jupyter_vgpu.ledger.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
