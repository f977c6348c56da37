"""Waiting for what comes when it comes: conditions, never durations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 180.0


def wait_until(happened: Callable[[], Any], what: str | Callable[[], str], seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first true answer; fail with `what` when there is none within `seconds`."""
    deadline = time.monotonic() + seconds
    pause_seconds = 0.01
    while not (answer := happened()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what if isinstance(what, str) else what()}: not within {seconds:g} s")
        time.sleep(pause_seconds)
        pause_seconds = min(0.1, 1.2 * pause_seconds)
    return answer
