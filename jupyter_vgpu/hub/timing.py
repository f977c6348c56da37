"""How much longer a start takes because of us.

What is *added* is all the time between a start's coming to us and its slice's being handed over, less two things that
are none of our doing: that no slice was free (*waited*), and that a step of ours was ready to go on and the hub's own
event loop was at work for others (*late*). Whatever is neither counts as added, explained or not: our steps, what
agent and ledger take to answer, and the wait for our own threads. On a machine that is busy all of it grows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from prometheus_client import Histogram

_BUCKETS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.5, 1, 2, 5)

# All are on the hub's own /hub/metrics.
ADDED = Histogram(
    "jupyter_vgpu_start_added_seconds",
    "Time that claiming a slice and handing it over added to a server's start, without the wait in the queue and "
    "without what the hub's event loop made it wait",
    buckets=_BUCKETS,
)
LATE = Histogram(
    "jupyter_vgpu_start_late_seconds",
    "Time for which steps of a server's start that were ready to go on waited for the hub's busy event loop",
    buckets=_BUCKETS,
)
WAITED = Histogram(
    "jupyter_vgpu_queue_wait_seconds",
    "Time that a server which got a slice could not have it, because too much was taken",
    buckets=(0.1, 1, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400),
)


class Stopwatch:
    """Adds up the time spent in several places.

    Attributes:
        seconds: So far, late ones too.
        late_seconds: How many of them were spent waiting for the event loop.
    """

    def __init__(self) -> None:
        """Start at zero, standing."""
        self.seconds = 0.0
        self.late_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[Stopwatch]:
        """Count the time within the context, and what `resumed` says there."""
        started = time.monotonic()
        token = _running.set(self)
        try:
            yield self
        finally:
            _running.reset(token)
            self.seconds += time.monotonic() - started


_running: ContextVar[Stopwatch | None] = ContextVar("jupyter_vgpu_stopwatch", default=None)


def resumed(ready_at: float) -> None:
    """Say that a coroutine goes on which could have gone on at `ready_at`, by `time.monotonic`."""
    stopwatch = _running.get()
    if stopwatch is not None:
        stopwatch.late_seconds += max(0.0, time.monotonic() - ready_at)
