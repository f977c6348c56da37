"""Rung when something was given back; tells when that was, so that the wait for it can be told from our own time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Rings:
    """When it was first rung since it was heard last, by `time.monotonic`; `None` = it was not.

    Attributes:
        freed_at: Because something was given back.
        woken_at: For whatever reason.
    """

    freed_at: float | None = None
    woken_at: float | None = None


class Bell:
    """Rung by some, waited for by one."""

    def __init__(self) -> None:
        """Nobody has rung."""
        self._event = asyncio.Event()
        self._rings = Rings()

    def ring(self, is_free: bool = True) -> None:
        """Wake who waits; `is_free`: because something was given back."""
        now, before = time.monotonic(), self._rings
        freed_at = now if is_free and before.freed_at is None else before.freed_at
        self._rings = Rings(freed_at, now if before.woken_at is None else before.woken_at)
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is rung, at most `seconds`; no time at all if it was since the last `hear`."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)

    def hear(self) -> Rings:
        """Return when it was first rung since the last call."""
        rings, self._rings = self._rings, Rings()
        self._event.clear()
        return rings
