"""Who is at the other end of a Unix socket: told by the kernel, not by the peer."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

# source: Linux 6.5, include/uapi/asm-generic/socket.h; Python has no name for it
SO_PEERPIDFD = 77

_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The process that connected.

    Attributes:
        pid: In the agent's PID namespace; 0 when it is not visible from there.
        uid: Its user at the time it connected.
        gid: Its group then.
    """

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who connected. source: unix(7), SO_PEERCRED."""
    return Peer(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def open_pidfd(connection: socket.socket, peer: Peer) -> int:
    """Return a descriptor of the peer's process, which becomes readable when it dies.

    Where the host kernel can (6.5), it names the very process that connected. Elsewhere it is opened by id, and
    only a peer that `is_alive` afterwards, on the same connection, is surely the one meant.

    Raises:
        ProcessLookupError: The peer is gone, or not visible from here.
        OSError: There are no descriptors left.
    """
    if peer.pid <= 0:
        raise ProcessLookupError(errno.ESRCH, "the process is in a PID namespace that the node agent cannot see")
    try:
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        if error.errno != errno.ENOPROTOOPT:
            raise ProcessLookupError(errno.ESRCH, f"process {peer.pid} is gone") from error
    try:
        return os.pidfd_open(peer.pid)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise ProcessLookupError(errno.ESRCH, f"process {peer.pid} is gone") from error


def is_alive(pidfd: int) -> bool:
    """Return whether the process of `pidfd` has not ended. source: pidfd_open(2), readable = terminated."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def is_connected(connection: socket.socket) -> bool:
    """Return whether someone still holds the other end of `connection`."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLHUP | select.POLLERR)
    return not poll.poll(0)


def started_ticks(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; `None` when it is gone.

    source: proc_pid_stat(5), field 22; the name in field 2 may hold spaces and brackets.
    """
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        )
    except (OSError, IndexError, ValueError):
        return None


def process_name(pid: int) -> str:
    """Return the short name of process `pid`; `""` when it is gone. Its owner chooses it: text for people only."""
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
        return "".join(letter if letter.isprintable() else "?" for letter in name)
    return ""
