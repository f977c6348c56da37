"""What a ledger in a SQLite file needs besides: quick commits, and to notice when the file is not the one it opened."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


def prepare(engine: Engine, path: Path) -> None:
    """Set up every connection that `engine` will make.

    Commits go to a write-ahead log and do not wait for the disk, which with the default takes longer than all else
    that a start needs. A crash of the hub loses nothing; a power cut may lose the last moments, which reconciliation
    with the agent mends. source: SQLite, "Write-Ahead Logging" and "PRAGMA synchronous"

    A file that was taken away or replaced is noticed before each use, and not touched: SQLite would go on writing into
    one that has no name any more, make an empty one, or mend a backup with the log of what it replaced.

    Args:
        engine: On a file, not in memory.
        path: That file.
    """
    opened: list[tuple[int, int]] = []  # what the ledger is, once it has been opened

    def check() -> None:
        found = _identity(path)
        if not opened:
            opened.append(found)
        if opened != [found]:
            raise OSError(
                "another file is there now: put back the one that the hub opened, or stop the hub first and remove "
                f"{path.name}-wal and {path.name}-shm, which belong to that one"
            )

    @event.listens_for(engine, "do_connect")
    def before_connecting(*_: Any) -> None:
        check()

    @event.listens_for(engine, "checkout")
    def before_use(*_: Any) -> None:
        check()

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, record: Any) -> None:
        # Where that cannot be done, as on some network drives, it is slower and no less right.
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            if cursor.fetchone() == ("wal",):
                cursor.execute("PRAGMA synchronous=NORMAL")


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
