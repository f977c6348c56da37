"""Who started a process, and for which notebook: read from /proc.

Only processes of this user and this PID namespace can be told apart; whatever
cannot be read is nobody's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_PROC = Path("/proc")
# A chain of parents that is longer than this belongs to no notebook of ours.
_MOST_GENERATIONS = 64
# What Jupyter Server tells a Jupyter kernel about the document it was started for.
# source: jupyter_server, services/sessions/sessionmanager.py, `get_kernel_env`
_NOTEBOOK_VARIABLE = b"JPY_SESSION_NAME"


class Origin(NamedTuple):
    """Where a process comes from: its parent, and the leader of its session."""

    parent: int
    session: int


def origin_of(pid: int) -> Origin | None:
    """Return where process `pid` comes from; `None` when there is no such process, or not for us."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything, brackets too. source: proc_pid_stat(5)
    fields = text.rpartition(")")[2].split()
    return Origin(parent=int(fields[1]), session=int(fields[3])) if len(fields) > 3 else None


def started_by(pid: int, starters: Collection[int]) -> int | None:
    """Return which of `starters` is process `pid` itself, or started it, or started who did.

    A Jupyter kernel leads a session of its own, so a process whose parents are gone is still known by its session.

    Args:
        pid: The process in question.
        starters: Process ids; of several that apply, the nearest is returned.

    Returns:
        One of `starters`, or `None` when none of them started it.
    """
    current = pid
    for _ in range(_MOST_GENERATIONS):
        if current in starters:
            return current
        origin = origin_of(current)
        if origin is None:
            return None
        if origin.session in starters and origin.session != current:
            return origin.session
        current = origin.parent
        if current <= 1:
            return None
    return None


def notebook_of(pid: int) -> str:
    """Return the path of the notebook whose Jupyter kernel process `pid` is or descends from; `""` when unknown.

    It is the path at the time the Jupyter kernel was started.
    """
    return _environment(pid).get(_NOTEBOOK_VARIABLE, b"").decode(errors="replace")


def short_name(path: str) -> str:
    """Return a notebook's name for people: the last part of its path."""
    return PurePosixPath(path).name or path


def _environment(pid: int) -> Mapping[bytes, bytes]:
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in content.split(b"\0"))
    return {name: value for name, _, value in pairs}
