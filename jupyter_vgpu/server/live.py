"""Follow the figures: one upstream reader, however many tabs look.

The reader asks the agent only while somebody follows, never twice at a time,
and always on its own thread, so that an agent that takes long to answer
costs the event loop nothing and takes no thread from anybody else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from jupyter_vgpu.server.figures import Figures
from jupyter_vgpu.server.history import History
from jupyter_vgpu.server.notebooks import Kernel


@dataclass(frozen=True)
class Reading:
    """Figures, and since when their state has been what it is.

    Attributes:
        figures: The newest figures.
        since_at: Unix seconds at which the state was first seen.
        body: All of it as the JSON text of an event, made once for all who follow.
    """

    figures: Figures
    since_at: float
    body: str

    def head(self) -> dict[str, Any]:
        """Return HEAD of docs/contracts.md."""
        return {"state": self.figures.state, "message": self.figures.message, "since_at": self.since_at}


def _reading(figures: Figures, since_at: float) -> Reading:
    body = {
        "state": figures.state,
        "message": figures.message,
        "since_at": since_at,
        "slice": figures.slice_info,
        "usage": figures.usage,
        "notebooks": figures.notebooks,
        "events": figures.events,
    }
    return Reading(figures, since_at, json.dumps(body))


class FiguresReader:
    """Shares one upstream reader among all streams and requests of a server.

    Lives in one event loop; only `read` runs elsewhere, on one thread.
    """

    def __init__(
        self,
        read: Callable[[Sequence[Kernel]], Figures],
        list_kernels: Callable[[], Awaitable[Sequence[Kernel]]],
        log: logging.Logger,
        period_seconds: float = 1.0,
    ) -> None:
        """Start nothing yet.

        Args:
            read: Returns the figures, split among the given Jupyter kernels. Blocking; must come back within a few
                seconds. Called on one thread, one call at a time.
            list_kernels: Returns the server's Jupyter kernels; called in the event loop.
            log: Where a failure that nobody foresaw is told.
            period_seconds: Time between two looks while somebody follows, > 0.
        """
        self._read = read
        self._list_kernels = list_kernels
        self.history = History()
        self._log = log
        self._period_seconds = period_seconds
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jupyter-vgpu-figures")
        self._call: asyncio.Task[Reading] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._reading: Reading | None = None
        self._news = asyncio.Condition()
        self._number = 0
        self._followers = 0
        self._is_closed = False

    @property
    def followers(self) -> int:
        """How many streams follow right now, >= 0."""
        return self._followers

    async def look(self) -> Reading:
        """Return fresh figures; several callers at a time share one look."""
        if self._call is None or self._call.done():
            self._call = asyncio.create_task(self._look_upstream())
        return await asyncio.shield(self._call)

    async def follow(self) -> AsyncGenerator[Reading, None]:
        """Yield a reading at once and then one per period, until the reader closes.

        A follower that is slow gets the newest reading, never a backlog.
        """
        self._followers += 1
        if self._ticker is None and not self._is_closed:
            self._ticker = asyncio.create_task(self._tick())
        seen = 0
        try:
            while not self._is_closed:
                seen = await self._later_than(seen)
                if self._reading is not None and not self._is_closed:
                    yield self._reading
        finally:
            self._followers -= 1
            if self._followers == 0:
                self._stop_ticker()

    async def close(self, wait_seconds: float = 2.0) -> None:
        """End every stream, then return; a follower that hangs is left after `wait_seconds`."""
        self._is_closed = True
        self._stop_ticker()
        async with self._news:
            self._news.notify_all()
        deadline = time.monotonic() + wait_seconds
        while self._followers and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _later_than(self, seen: int) -> int:
        """Wait for a look after number `seen`, or for the end; return its number."""
        async with self._news:
            await self._news.wait_for(lambda: self._is_closed or self._number > seen)
        return self._number

    async def _look_upstream(self) -> Reading:
        kernels = await self._list_kernels()
        reading = await asyncio.get_running_loop().run_in_executor(self._executor, self._reading_of, kernels)
        if reading.figures.usage is not None:
            self.history.add(reading.figures.usage)
        self._reading = reading
        return reading

    def _reading_of(self, kernels: Sequence[Kernel]) -> Reading:
        figures = self._read(kernels)
        before = self._reading
        same = before is not None and before.figures.state == figures.state
        return _reading(figures, before.since_at if before is not None and same else time.time())

    async def _tick(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                # The streams outlive a failure; it is told here and the next look may work.
                self._log.exception("jupyter_vgpu: reading the figures of this server's slice failed")
            async with self._news:
                self._number += 1
                self._news.notify_all()
            await asyncio.sleep(self._period_seconds)

    def _stop_ticker(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        # The next follower begins with a look of its own, not with an old one.
        self._number = 0
