"""Watches that cost the loop nothing: deaths of processes, and looks into living ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from jupyter_vgpu.backends import BACKENDS, Enforcement
from jupyter_vgpu.model import Claim

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


class DeathWatch:
    """Says at once when a process has died, however it died.

    It owns the pidfds it is given.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch in `loop`."""
        self._loop = loop
        self._pidfds: set[int] = set()

    def watch(self, pidfd: int, died: Callable[[], None]) -> None:
        """Call `died` once, in the loop, as soon as the process of `pidfd` is dead; then the pidfd is closed."""

        def fired() -> None:
            self.forget(pidfd)
            died()

        self._pidfds.add(pidfd)
        self._loop.add_reader(pidfd, fired)

    def forget(self, pidfd: int) -> None:
        """Stop watching and close. Forgetting twice is forgetting once."""
        if pidfd in self._pidfds:
            self._pidfds.remove(pidfd)
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def close(self) -> None:
        """Forget everything."""
        for pidfd in list(self._pidfds):
            self.forget(pidfd)


class Looker:
    """A thread that asks the backends what they see in attached processes, about once a second.

    Reading /proc can wait for a process that holds its own memory map locked, so the loop never does it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seen: Callable[[Claim, Sequence[int], Enforcement, float], None]
    ) -> None:
        """Report to `seen(claim, pids, enforcement, unix_seconds)`, in `loop`."""
        self._loop = loop
        self._seen = seen
        self._todo: list[tuple[Claim, tuple[int, ...]]] = []
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._look_on, name="jvgpu-looker", daemon=True)

    def start(self) -> None:
        """Start the thread. It is a daemon: one stuck in /proc does not keep the agent alive."""
        self._thread.start()

    def look_at(self, todo: list[tuple[Claim, tuple[int, ...]]], at_once: bool = False) -> None:
        """Say which processes of which claims to look at from now on."""
        self._todo = todo
        if at_once:
            self._wake.set()

    def stop(self) -> None:
        """Stop; whatever is being looked at is not reported."""
        self._stopped = True
        self._wake.set()

    def _look_on(self) -> None:
        while not self._stopped:
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()
            for claim, pids in self._todo:
                try:
                    enforcement = BACKENDS[claim.backend].observe(claim, pids)
                except Exception:
                    log.exception("claim %s of %s: looking at its processes failed", claim.claim_id, claim.tenant)
                    continue
                if self._stopped:
                    return
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                    self._loop.call_soon_threadsafe(self._seen, claim, pids, enforcement, time.time())
