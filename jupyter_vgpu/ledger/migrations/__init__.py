"""Steps from one form of the ledger's tables to the next, run by alembic when a ledger is opened."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

# Of our own: a hub's database may hold JupyterHub's `alembic_version` beside our tables.
VERSION_TABLE = "vgpu_alembic_version"

_FIRST = "0001"


def newest() -> str:
    """Return the revision that this version of the package works with."""
    head = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert head is not None
    return head


def known() -> set[str]:
    """Return all revisions that this version of the package can start from."""
    return {script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions()}


def current(connection: Connection) -> str | None:
    """Return the revision of a database; `None` when it has no ledger yet."""
    revision = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if revision is None and inspect(connection).has_table("vgpu_claims"):
        return _FIRST  # made before there were migrations
    return revision


def upgrade(connection: Connection) -> None:
    """Bring a database of a known revision, or an empty one, to the newest, within the caller's transaction."""
    config = _config(connection)
    is_unstamped = not inspect(connection).has_table(VERSION_TABLE)
    if is_unstamped and inspect(connection).has_table("vgpu_claims"):
        command.stamp(config, _FIRST)
    command.upgrade(config, "head")


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
