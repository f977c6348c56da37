"""Take in connections as they come, and stay up when there are no descriptors left for them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from jupyter_vgpu.agent.events import Throttle

log = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
_PAUSE_SECONDS = 0.1
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Acceptor:
    """Accepts what comes to one listening socket, from an event loop, until it is closed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, welcome: Callable[[socket.socket], None]
    ) -> None:
        """Accept from now on.

        Args:
            loop: Whose turn is shared: a few connections each.
            listener: Non-blocking; it stays the caller's to close, after `close`.
            welcome: Called with each connection, which becomes its own.
        """
        self._loop = loop
        self._listener = listener
        self._welcome = welcome
        self._is_open = True
        self._throttle = Throttle()
        loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept nothing more."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listener.fileno())

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._is_open:
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF:
                    raise
                self._pause(error)
                return
            self._welcome(connection)

    def _pause(self, error: OSError) -> None:
        """Leave the queue alone for a moment: out of descriptors, accepting again at once would spin."""
        if self._throttle.passes(error.errno) is not None:
            log.error("no connection can be taken in for now: %s", error)
        self._loop.remove_reader(self._listener.fileno())

        def resume() -> None:
            if self._is_open:
                self._loop.add_reader(self._listener.fileno(), self._accept)

        self._loop.call_later(_PAUSE_SECONDS, resume)
