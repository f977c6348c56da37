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
# Behind a request: native/src/exchange.c.
RENEWAL = b"RENEWAL\0"


@dataclass(frozen=True)
class Answer:
    """What an attaching process is told.

    Attributes:
        status: `pages.ATTACH_*`.
        message: For the tenant's eyes when refused.
        slot: With `ATTACH_OK`.
        fds: Control and usage page, with `ATTACH_OK`.
        undo: Called when the answer could not be delivered.
        moved: Called once the process has said that what it held stands in its page, has gone, or has taken too long.
    """

    status: int
    message: str = ""
    slot: pages.Slot | None = None
    fds: tuple[int, ...] = ()
    undo: Callable[[], None] | None = None
    moved: Callable[[], None] | None = None


# Decides, given the peer, its pidfd (the decider's to close or keep), the secret it showed, and whether it says that it
# has a slot, of this agent or an earlier one, and carries over what stands in it.
Decider = Callable[[peers.Peer, int, str, bool], Answer]


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
        # Of each process that carries over what it held, the connection on which it will say that it has.
        self._moving: dict[int, tuple[socket.socket, asyncio.TimerHandle, Callable[[], None]]] = {}
        self._request_bytes = pages.request_bytes()
        listener.setblocking(False)
        self._acceptor = Acceptor(loop, listener, self._welcome)

    def close(self) -> None:
        """Stop serving and drop who is waiting."""
        self._acceptor.close()
        self._listener.close()
        for fd in list(self._pending):
            self._drop(fd)
        for pid in list(self._moving):
            self._moved(pid)

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
            if not self._serve(connection, peer, request):
                connection.close()
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
        self._let_go(fd).close()

    def _let_go(self, fd: int) -> socket.socket:
        """Return a connection that is no longer waited for."""
        pending = self._pending.pop(fd)
        pending.deadline.cancel()
        self._loop.remove_reader(fd)
        of_user = self._pending_of[pending.peer.uid]
        del of_user[fd]
        if not of_user:
            del self._pending_of[pending.peer.uid]
        return pending.connection

    def _late(self, fd: int) -> None:
        self._offences.note(self._pending[fd].peer, f"connected and sent nothing for {PATIENCE_SECONDS:g} s")
        self._drop(fd)

    def _readable(self, fd: int) -> None:
        peer = self._pending[fd].peer
        request = self._read(self._pending[fd].connection)
        if request is not None:
            connection = self._let_go(fd)
            if not self._serve(connection, peer, request):
                connection.close()

    def _read(self, connection: socket.socket) -> bytes | None:
        """Return what the peer sent, `b""` when it left, `None` when it has sent nothing yet."""
        try:
            # One byte more than a request tells an oversized one from a right one. Descriptors that
            # came along are closed by the kernel, since there is no room for them.
            return connection.recv(self._request_bytes + len(RENEWAL) + 1, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _serve(self, connection: socket.socket, peer: peers.Peer, request: bytes) -> bool:
        """Return whether the connection is kept: the peer has one more thing to say."""
        if not request:
            self._offences.note(peer, "connected and left without a request")
            return False
        answer = self._answer(connection, peer, request)
        if answer.status != pages.ATTACH_OK:
            self._offences.note(peer, f"refused: {answer.message}")
        is_sent = self._send(connection, answer)
        if answer.moved is None:
            return False
        if not is_sent:
            answer.moved()
            return False
        self._await_move(connection, peer, answer.moved)
        return True

    def _await_move(self, connection: socket.socket, peer: peers.Peer, moved: Callable[[], None]) -> None:
        if peer.pid in self._moving:
            self._moved(peer.pid)
        deadline = self._loop.call_later(PATIENCE_SECONDS, partial(self._moved, peer.pid))
        self._moving[peer.pid] = (connection, deadline, moved)
        self._loop.add_reader(connection.fileno(), self._moved, peer.pid)

    def _moved(self, pid: int) -> None:
        connection, deadline, moved = self._moving.pop(pid)
        deadline.cancel()
        self._loop.remove_reader(connection.fileno())
        # The end of the connection tells the process that it is counted by its page from now on.
        with connection:
            moved()

    def _answer(self, connection: socket.socket, peer: peers.Peer, request: bytes) -> Answer:
        is_renewal = len(request) == self._request_bytes + len(RENEWAL) and request.endswith(RENEWAL)
        status, secret = pages.parse_request(request[: self._request_bytes] if is_renewal else request)
        if status == pages.ATTACH_VERSION:
            return Answer(
                status, f"this jupyter-vgpu has another page layout than its node agent ({pages.LAYOUT}): update both"
            )
        if status != pages.ATTACH_OK:
            return Answer(status, "malformed request")
        return self._identified(connection, peer, secret, is_renewal)

    def _identified(self, connection: socket.socket, peer: peers.Peer, secret: str, is_renewal: bool) -> Answer:
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
        return self._decide(peer, pidfd, secret, is_renewal)

    def _send(self, connection: socket.socket, answer: Answer) -> bool:
        """Return whether the answer is on its way."""
        reply = pages.build_reply(answer.status, answer.message, answer.slot)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", answer.fds))] if answer.fds else []
        try:
            connection.sendmsg([reply], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            if answer.undo is not None:
                with contextlib.suppress(Exception):
                    answer.undo()
            return False
        return True
