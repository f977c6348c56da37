"""A wait of the event loop that somebody may cut short."""

from __future__ import annotations

import asyncio


class Nap:
    """Waits for one caller at a time."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._end: asyncio.Future[None] | None = None

    async def take(self, seconds: float) -> None:
        """Wait so long, or until `end` is called."""
        loop = asyncio.get_running_loop()
        self._end = loop.create_future()
        timer = loop.call_later(seconds, self.end)
        try:
            await self._end
        finally:
            timer.cancel()
            self._end = None

    def end(self) -> None:
        """Let who waits go on; nothing where nobody does. In the loop's thread."""
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
