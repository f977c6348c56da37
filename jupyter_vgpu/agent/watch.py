"""Watches that cost the loop nothing: deaths of processes, and looks into living ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from jupyter_vgpu.backends import BACKENDS, Enforcement
from jupyter_vgpu.model import Claim

log = logging.getLogger(__name__)

_ROUND_SECONDS = 30.0
_SETTLE_SECONDS = 0.05  # processes often come in flocks, and each look is at all of a claim's


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
    """A thread that asks the backends what they see in attached processes.

    At once where processes came or went, and everywhere every thirty seconds: a look costs a millisecond or more per
    process. Reading /proc can wait for a process that holds its own memory map locked, so the loop never does it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seen: Callable[[Claim, Sequence[int], Enforcement, float], None]
    ) -> None:
        """Report to `seen(claim, pids, enforcement, unix_seconds)`, in `loop`."""
        self._loop = loop
        self._seen = seen
        self._attached: dict[str, tuple[Claim, tuple[int, ...]]] = {}
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._look_on, name="jvgpu-looker", daemon=True)

    def start(self) -> None:
        """Start the thread. It is a daemon: one stuck in /proc does not keep the agent alive."""
        self._thread.start()

    def note(self, claim: Claim, pids: Sequence[int]) -> None:
        """Say which processes of `claim` are attached from now on; none = it is not looked at any more."""
        if pids:
            # Replaced, not changed: the thread goes through the one it has got.
            self._attached = {**self._attached, claim.claim_id: (claim, tuple(pids))}
            self._changed.put(claim.claim_id)
        else:
            self._attached = {name: each for name, each in self._attached.items() if name != claim.claim_id}

    def stop(self) -> None:
        """Stop; whatever is being looked at is not reported."""
        self._stopped = True
        self._changed.put("")

    def _look_on(self) -> None:
        next_round = time.monotonic() + _ROUND_SECONDS
        while not self._stopped:
            try:
                changed = {self._changed.get(timeout=max(0.0, next_round - time.monotonic()))}
                time.sleep(_SETTLE_SECONDS)
                while not self._changed.empty():
                    changed.add(self._changed.get())
            except queue.Empty:
                changed = set(self._attached)
                next_round = time.monotonic() + _ROUND_SECONDS
            attached = self._attached
            for claim_id in changed & set(attached):
                self._look_at(*attached[claim_id])

    def _look_at(self, claim: Claim, pids: tuple[int, ...]) -> None:
        try:
            enforcement = BACKENDS[claim.backend].observe(claim, pids)
        except Exception:
            log.exception("claim %s of %s: looking at its processes failed", claim.claim_id, claim.tenant)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            if not self._stopped:
                self._loop.call_soon_threadsafe(self._seen, claim, pids, enforcement, time.time())
