"""How much longer a start takes because of us, without the wait for a slice that was taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Histogram

# Both are on the hub's own /hub/metrics.
ADDED = Histogram(
    "jupyter_vgpu_start_added_seconds",
    "Time that claiming a slice and handing it over added to a server's start, without the wait in the queue",
    buckets=(0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.5, 1, 2, 5),
)
WAITED = Histogram(
    "jupyter_vgpu_queue_wait_seconds",
    "Time that a server which got a slice could not have it, because too much was taken",
    buckets=(0.1, 1, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400),
)


class Stopwatch:
    """Adds up the time spent in several places.

    Attributes:
        seconds: So far.
    """

    def __init__(self) -> None:
        """Start at zero, standing."""
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time within the context."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started
