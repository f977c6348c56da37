"""Questions that are answered once something has changed: who follows a slice need not ask again and again.

Everything belongs to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Hashable

from jupyter_vgpu.client import UsageInfo
from jupyter_vgpu.errors import BadValueError

# A change is told this much later at most, and each thing that is waited for is looked at no more often.
LOOK_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0


class Changes:
    """Those who wait for something to become another than they know it, looked at together at the agent's beat."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: dict[Hashable, dict[asyncio.Future[None], str]] = {}
        self._marks: dict[Hashable, Callable[[], str]] = {}
        self._looked_at = float("-inf")
        self._has_seen_rest = False

    @property
    def waiting(self) -> int:
        """How many wait right now, >= 0."""
        return sum(len(futures) for futures in self._waiting.values())

    def wait(self, key: Hashable, mark: Callable[[], str], known: str, seconds: float) -> asyncio.Future[None]:
        """Return what is done once the mark is another than `known`, or the time is over; who does it ends the wait.

        Args:
            key: What is waited for: those who wait for the same have it looked at once.
            mark: Returns its mark as of now; it must not fail.
            known: The mark that the caller knows.
            seconds: How long to wait at most, >= 0.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if seconds <= 0 or mark() != known:
            future.set_result(None)
            return future
        self._waiting.setdefault(key, {})[future] = known
        self._marks[key] = mark
        timer = loop.call_later(seconds, _end, future)

        def over(_: asyncio.Future[None]) -> None:
            timer.cancel()
            self._forget(key, future)

        future.add_done_callback(over)
        return future

    def _forget(self, key: Hashable, future: asyncio.Future[None]) -> None:
        futures = self._waiting[key]
        del futures[future]
        if not futures:
            del self._waiting[key], self._marks[key]

    def look(self, now: float, is_at_rest: bool = False) -> None:
        """Let those go on for whom something has changed, unless it has just been looked.

        Args:
            now: Monotonic seconds.
            is_at_rest: Whether nobody does anything on this node: after one more look there is nothing to see.
        """
        self._has_seen_rest = self._has_seen_rest and is_at_rest
        # Beats come a little early or late.
        if self._has_seen_rest or now - self._looked_at < 0.8 * LOOK_SECONDS:
            return
        self._looked_at, self._has_seen_rest = now, is_at_rest
        for key, futures in self._waiting.items():
            mark = self._marks[key]()
            for future, known in futures.items():
                if mark != known:
                    _end(future)


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def usage_mark(usage: UsageInfo) -> str:
    """Return what is another text once anything but the time has changed, and when the slice was last verified."""
    untimed = {**usage, "time": 0, "enforced_by": {**usage["enforced_by"], "verified_at": 0}}
    return hashlib.blake2b(json.dumps(untimed).encode(), digest_size=12).hexdigest()


def parse_wait(text: str) -> float:
    """Return how long a caller would wait, in seconds.

    Raises:
        BadValueError: It is no such time.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        raise BadValueError("wait_seconds", text, f"a number of seconds from 0 to {LONGEST_WAIT_SECONDS:g} is")
    return seconds
