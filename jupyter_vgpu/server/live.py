"""Follow the figures: one upstream reader, however many tabs look.

The reader asks the agent only while somebody follows, never twice at a time,
and without blocking, so that an agent that takes long to answer costs the
event loop nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_vgpu.server.figures import Figures, SliceLooker
from jupyter_vgpu.server.history import History
from jupyter_vgpu.server.notebooks import Kernel
from jupyter_vgpu.server.session import SessionInfo

# So many followers are woken at a time; in between, the loop serves who else asks.
_WOKEN_AT_ONCE = 4


@dataclass(frozen=True)
class Reading:
    """Figures, and since when their state has been what it is.

    Attributes:
        figures: The newest figures.
        since_at: Unix seconds at which the state was first seen.
        session: SESSION as in `docs/contracts.md`.
        body: All of it as the JSON text of an event, encoded once for all who follow.
    """

    figures: Figures
    since_at: float
    session: SessionInfo
    body: bytes

    def head(self) -> dict[str, Any]:
        """Return HEAD of docs/contracts.md."""
        return {"state": self.figures.state, "message": self.figures.message, "since_at": self.since_at}


def _reading(figures: Figures, since_at: float, session: SessionInfo) -> Reading:
    body: dict[str, Any] = {
        "state": figures.state,
        "message": figures.message,
        "since_at": since_at,
        "slice": figures.slice_info,
        "usage": figures.usage,
        "notebooks": figures.notebooks,
        "events": figures.events,
    }
    if figures.slice_info is not None:
        body["session"] = session
    return Reading(figures, since_at, session, json.dumps(body).encode())


class FiguresReader:
    """Shares one upstream reader among all streams and requests of a server; lives in one event loop."""

    def __init__(
        self,
        looker: SliceLooker,
        list_kernels: Callable[[], Awaitable[Sequence[Kernel]]],
        session: Callable[[], SessionInfo],
        log: logging.Logger,
        period_seconds: float = 1.0,
    ) -> None:
        """Start nothing yet.

        Args:
            looker: Looks at the slice.
            list_kernels: Returns the server's Jupyter kernels.
            session: Returns what is known of the server's end.
            log: Where a failure that nobody foresaw is told.
            period_seconds: Time between two looks while somebody follows, > 0.
        """
        self._looker = looker
        self._list_kernels = list_kernels
        self._session = session
        self.history = History()
        self._log = log
        self._period_seconds = period_seconds
        self._call: asyncio.Task[Reading] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._reading: Reading | None = None
        self._read_at = float("-inf")
        self._history_of: tuple[Reading | None, bytes] = (None, b"")
        self._followers: list[asyncio.Event] = []
        self._is_closed = False

    @property
    def followers(self) -> int:
        """How many streams follow right now, >= 0."""
        return len(self._followers)

    def history_body(self) -> bytes:
        """Return the JSON text of the history, made once for all who ask between two looks."""
        reading, body = self._history_of
        if reading is None or reading is not self._reading:
            body = json.dumps(self.history.as_json()).encode()
            self._history_of = (self._reading, body)
        return body

    async def latest(self) -> Reading:
        """Return what the streams were told last, while there are any; otherwise, or where that is old, look anew."""
        if self._reading is not None and self._is_fresh():
            return self._reading
        return await self.look()

    def _is_fresh(self) -> bool:
        """Whether the streams were told something, and lately."""
        return self._ticker is not None and time.monotonic() - self._read_at < self._period_seconds

    async def look(self) -> Reading:
        """Return fresh figures; several callers at a time share one look."""
        if self._call is None or self._call.done():
            self._call = asyncio.create_task(self._look_upstream())
        return await asyncio.shield(self._call)

    async def follow(self) -> AsyncGenerator[Reading, None]:
        """Yield a reading at once and then one per period, until the reader closes.

        A follower that is slow gets the newest reading, never a backlog.
        """
        news = asyncio.Event()
        self._followers.append(news)
        if self._is_fresh():
            news.set()
        if self._ticker is None and not self._is_closed:
            self._ticker = asyncio.create_task(self._tick())
        try:
            while not self._is_closed:
                await news.wait()
                news.clear()
                if self._reading is not None and not self._is_closed:
                    yield self._reading
        finally:
            self._followers.remove(news)
            if not self._followers:
                self._stop_ticker()

    async def close(self, wait_seconds: float = 2.0) -> None:
        """End every stream, then return; a follower that hangs is left after `wait_seconds`."""
        self._is_closed = True
        self._stop_ticker()
        for news in self._followers:
            news.set()
        deadline = time.monotonic() + wait_seconds
        while self._followers and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._call is not None:
            self._call.cancel()
        self._looker.close()

    async def _look_upstream(self) -> Reading:
        figures = await self._looker.look(await self._list_kernels())
        before = self._reading
        same = before is not None and before.figures.state == figures.state
        since_at = before.since_at if before is not None and same else time.time()
        reading = _reading(figures, since_at, self._session())
        if figures.usage is not None:
            self.history.add(figures.usage)
        self._reading = reading
        self._read_at = time.monotonic()
        return reading

    async def _tick(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                # The streams outlive a failure; it is told here and the next look may work.
                self._log.exception("jupyter_vgpu: reading the figures of this server's slice failed")
            await self._tell()
            await asyncio.sleep(self._period_seconds)

    async def _tell(self) -> None:
        """Wake the followers, a few at a time: writing to all of them at once would keep others waiting."""
        for number, news in enumerate(list(self._followers), 1):
            news.set()
            if number % _WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _stop_ticker(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
            # The next follower begins with a look of its own, not with an old one.
            self._read_at = float("-inf")
