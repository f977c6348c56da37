"""The socket on which a tenant's processes attach, and get their claim's pages.

Whoever connects is untrusted: nothing here waits for a peer, every connection has a
deadline, and a peer that sends nonsense costs one line of log a minute.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jupyter_vgpu import pages
from jupyter_vgpu.agent import peers
from jupyter_vgpu.agent.accepting import Acceptor
from jupyter_vgpu.agent.events import Throttle

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
MOST_PENDING_PER_USER = 512


@dataclass(frozen=True)
class Answer:
    """What an attaching process is told.

    Attributes:
        status: `pages.ATTACH_*`.
        message: For the tenant's eyes when refused.
        slot: With `ATTACH_OK`.
        fds: Control and usage page, with `ATTACH_OK`.
        undo: Called when the answer could not be delivered.
    """

    status: int
    message: str = ""
    slot: pages.Slot | None = None
    fds: tuple[int, ...] = ()
    undo: Callable[[], None] | None = None


# Decides, given the peer, its pidfd (the decider's to close or keep) and the secret it showed.
Decider = Callable[[peers.Peer, int, str], Answer]


class OffenceLog:
    """Logs one line per offender per minute, however many there are."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._throttle = Throttle()

    def note(self, peer: peers.Peer, what: str) -> None:
        """Log that `peer` did `what`, unless its user had a line within the last minute."""
        before = self._throttle.passes(peer.uid)
        if before is not None:
            log.warning("attach: uid %d, process %d: %s (%d earlier ones not logged)", peer.uid, peer.pid, what, before)


@dataclass(frozen=True)
class _Pending:
    connection: socket.socket
    peer: peers.Peer
    deadline: asyncio.TimerHandle


class AttachServer:
    """Serves one listening SOCK_SEQPACKET socket from an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: socket.socket, decide: Decider) -> None:
        """Serve `listener`, which becomes this object's to close; `decide` is called in the loop."""
        self._loop = loop
        self._listener = listener
        self._decide = decide
        self._offences = OffenceLog()
        self._pending: dict[int, _Pending] = {}
        # Of each user the descriptors of its pending connections, oldest first.
        self._pending_of: dict[int, dict[int, None]] = {}
        self._request_bytes = pages.request_bytes()
        listener.setblocking(False)
        self._acceptor = Acceptor(loop, listener, self._welcome)

    def close(self) -> None:
        """Stop serving and drop who is waiting."""
        self._acceptor.close()
        self._listener.close()
        for fd in list(self._pending):
            self._drop(fd)

    def _welcome(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            peer = peers.peer_of(connection)
        except OSError:
            connection.close()
            return
        # Most have sent their request by now and need no watching.
        request = self._read(connection)
        if request is not None:
            with connection:
                self._serve(connection, peer, request)
            return
        pending = self._pending_of.setdefault(peer.uid, {})
        if len(pending) >= MOST_PENDING_PER_USER:
            # Whoever means well sends at once, so it is the oldest that goes.
            self._offences.note(peer, f"more than {MOST_PENDING_PER_USER} connections without a request")
            self._drop(next(iter(pending)))
            pending = self._pending_of.setdefault(peer.uid, {})
        fd = connection.fileno()
        pending[fd] = None
        deadline = self._loop.call_later(PATIENCE_SECONDS, partial(self._late, fd))
        self._pending[fd] = _Pending(connection, peer, deadline)
        self._loop.add_reader(fd, self._readable, fd)

    def _drop(self, fd: int) -> None:
        pending = self._pending.pop(fd)
        pending.deadline.cancel()
        self._loop.remove_reader(fd)
        pending.connection.close()
        of_user = self._pending_of[pending.peer.uid]
        del of_user[fd]
        if not of_user:
            del self._pending_of[pending.peer.uid]

    def _late(self, fd: int) -> None:
        self._offences.note(self._pending[fd].peer, f"connected and sent nothing for {PATIENCE_SECONDS:g} s")
        self._drop(fd)

    def _readable(self, fd: int) -> None:
        pending = self._pending[fd]
        request = self._read(pending.connection)
        if request is not None:
            try:
                self._serve(pending.connection, pending.peer, request)
            finally:
                self._drop(fd)

    def _read(self, connection: socket.socket) -> bytes | None:
        """Return what the peer sent, `b""` when it left, `None` when it has sent nothing yet."""
        try:
            # One byte more than a request tells an oversized one from a right one. Descriptors that
            # came along are closed by the kernel, since there is no room for them.
            return connection.recv(self._request_bytes + 1, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _serve(self, connection: socket.socket, peer: peers.Peer, request: bytes) -> None:
        if request:
            self._answer(connection, peer, request)
        else:
            self._offences.note(peer, "connected and left without a request")

    def _answer(self, connection: socket.socket, peer: peers.Peer, request: bytes) -> None:
        status, secret = pages.parse_request(request)
        if status == pages.ATTACH_VERSION:
            answer = Answer(
                status, f"this jupyter-vgpu has another page layout than its node agent ({pages.LAYOUT}): update both"
            )
        elif status != pages.ATTACH_OK:
            answer = Answer(status, "malformed request")
        else:
            answer = self._identified(connection, peer, secret)
        if answer.status != pages.ATTACH_OK:
            self._offences.note(peer, f"refused: {answer.message}")
        self._send(connection, answer)

    def _identified(self, connection: socket.socket, peer: peers.Peer, secret: str) -> Answer:
        try:
            pidfd = peers.open_pidfd(connection, peer)
        except ProcessLookupError as error:
            return Answer(pages.ATTACH_REFUSED, error.strerror or "the process is gone")
        except OSError as error:
            return Answer(pages.ATTACH_REFUSED, f"the node agent is overloaded ({error.strerror}): try again later")
        # Only now it is sure that the pidfd is the peer's: a process that was alive when its
        # id was looked up, and still holds the connection, is the one that connected.
        if not peers.is_alive(pidfd) or not peers.is_connected(connection):
            os.close(pidfd)
            return Answer(pages.ATTACH_REFUSED, "the process is gone")
        return self._decide(peer, pidfd, secret)

    def _send(self, connection: socket.socket, answer: Answer) -> None:
        reply = pages.build_reply(answer.status, answer.message, answer.slot)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", answer.fds))] if answer.fds else []
        try:
            connection.sendmsg([reply], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            if answer.undo is not None:
                with contextlib.suppress(Exception):
                    answer.undo()
