"""Find servers that a hub had started on this node, and was killed before it had written down that it had."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

# source: jupyterhub 5.3-6.1, `Spawner.get_env`
_PREFIX, _URL, _TOKEN = b"JUPYTERHUB_SERVICE_PREFIX", b"JUPYTERHUB_SERVICE_URL", b"JUPYTERHUB_API_TOKEN"
_START_FIELD = 19  # of /proc/PID/stat, counted from behind the name. source: proc_pid_stat(5), (22) starttime


@dataclass(frozen=True)
class LostServer:
    """A process that says that it is a server of a hub.

    Attributes:
        pid: The process.
        port: Where it was told to listen.
        token: What it was given to ask its hub with: whoever knows the token can tell whether it is theirs.
    """

    pid: int
    port: int
    token: str


def servers_left(uid: int, prefix: str) -> list[LostServer]:
    """Return the processes of one host user that were started as the server at `prefix`, the oldest first.

    What a server has started inherits what it was told, so only leaders of a session count, as servers are, and the
    oldest is the server if it lives. Blocking, for as long as it takes to look through /proc.

    Args:
        uid: Host user. Nobody else's processes are looked at, whatever they say they are.
        prefix: Path of the server at its hub, as "/user/ada/".
    """
    found = []
    for entry in Path("/proc").iterdir():
        # A process may end at any moment, and be somebody else's to look at.
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            if not entry.name.isdigit() or entry.stat().st_uid != uid or os.getsid(int(entry.name)) != int(entry.name):
                continue
            told = dict(part.split(b"=", 1) for part in (entry / "environ").read_bytes().split(b"\0") if b"=" in part)
            if told.get(_PREFIX) != prefix.encode():
                continue
            port = urlsplit(told[_URL].decode()).port
            since = int((entry / "stat").read_text().rpartition(")")[2].split()[_START_FIELD])
            if port:
                found.append((since, LostServer(int(entry.name), port, told[_TOKEN].decode())))
    return [server for _, server in sorted(found, key=lambda one: (one[0], one[1].pid))]
