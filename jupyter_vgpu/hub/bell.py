"""Rung when something was given back; tells when that was, so that the wait for it can be told from our own time."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Bell:
    """Rung by some, waited for by one."""

    def __init__(self) -> None:
        """Nobody has rung."""
        self._event = asyncio.Event()
        self._rung_at: float | None = None

    def ring(self) -> None:
        """Wake who waits."""
        if self._rung_at is None:
            self._rung_at = time.monotonic()
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is rung, at most `seconds`; no time at all if it was since the last `hear`."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)

    def hear(self) -> float | None:
        """Return when it was first rung since the last call, by `time.monotonic`; `None` = it was not."""
        rung_at, self._rung_at = self._rung_at, None
        self._event.clear()
        return rung_at
