"""Follow the figures: one upstream reader, however many tabs look.

The reader asks the agent only while somebody follows, never twice at a time,
and without blocking, so that an agent that takes long to answer costs the
event loop nothing. Between two looks a server sleeps and grows cold, so what a
look costs is how much of it has to wake up: it takes few turns of the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.server.figures import Figures, SliceLooker
from jupyter_vgpu.server.history import History
from jupyter_vgpu.server.notebooks import Kernel
from jupyter_vgpu.server.session import SessionInfo

# So many followers are told at a time; in between, the loop serves who else asks.
_TOLD_AT_ONCE = 4

# While nothing changes it is looked less often, and yet often enough for figures to follow within two seconds.
_QUIET_PERIODS = 1.5

_UNFORESEEN = "The figures of this slice cannot be read: the log of your Jupyter server says why."


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


class Follower(Protocol):
    """Who is told each reading, in the reader's event loop, without waiting."""

    def tell(self, reading: Reading) -> None:
        """Take a reading."""

    def end(self) -> None:
        """Know that no more will come."""


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
            period_seconds: Time between two looks while somebody follows and figures change, > 0.
        """
        self._looker = looker
        self._list_kernels = list_kernels
        self._session = session
        self.history = History()
        self._log = log
        self._period_seconds = period_seconds
        self._call: asyncio.Task[Reading] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading: Reading | None = None
        self._read_at = float("-inf")
        self._history_of: tuple[Reading | None, bytes] = (None, b"")
        self._followers: dict[Follower, None] = {}  # in the order in which they came
        self._is_news = False
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
        return bool(self._followers) and time.monotonic() - self._read_at < self._period_seconds * _QUIET_PERIODS

    def expect_news(self) -> None:
        """Have the next look make a new reading, though the figures be the same: something else has changed."""
        self._is_news = True

    async def look(self) -> Reading:
        """Return figures that are fresh, see `SliceLooker.look`; several callers at a time share one look."""
        if self._call is None or self._call.done():
            self._call = asyncio.create_task(self._look_upstream())
        return await asyncio.shield(self._call)

    def follow(self, follower: Follower) -> None:
        """Tell a follower a reading soon and then at each look, until it leaves or the reader closes."""
        if self._is_closed:
            follower.end()
            return
        is_fresh = self._is_fresh()
        self._followers[follower] = None
        if is_fresh and self._reading is not None:
            follower.tell(self._reading)
        if self._timer is None:
            self._tick()

    def leave(self, follower: Follower) -> None:
        """Tell a follower no more."""
        self._followers.pop(follower, None)
        if not self._followers:
            self._stop_timer()
            # The next follower begins with a look of its own, not with an old one.
            self._read_at = float("-inf")

    async def close(self, wait_seconds: float = 2.0) -> None:
        """End every stream, then return; a follower that hangs is left after `wait_seconds`."""
        self._is_closed = True
        self._stop_timer()
        for follower in list(self._followers):
            follower.end()
        deadline = time.monotonic() + wait_seconds
        while self._followers and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._call is not None:
            self._call.cancel()
        self._looker.close()

    async def _look_upstream(self) -> Reading:
        try:
            figures = await self._looker.look(await self._list_kernels())
        except Exception:
            # The streams outlive a failure that nobody foresaw; the next look may work.
            self._log.exception("jupyter_vgpu: reading the figures of this server's slice failed")
            figures = Figures(VGPUError.reason, _UNFORESEEN)
        if self._looker.usage is not None:
            self.history.add(self._looker.usage)
        reading = self._reading = self._read(figures)
        self._read_at = time.monotonic()
        self._tell(list(self._followers))
        return reading

    def _read(self, figures: Figures) -> Reading:
        """Return the reading of figures: the last one where it was of the same."""
        before = self._reading
        if before is not None and before.figures == figures and not self._is_news:
            return before
        self._is_news = False
        same = before is not None and before.figures.state == figures.state
        since_at = before.since_at if before is not None and same else time.time()
        return _reading(figures, since_at, self._session())

    def _tick(self) -> None:
        """Look now, unless somebody does, and again after a period."""
        if self._call is None or self._call.done():
            self._call = asyncio.create_task(self._look_upstream())
        seconds = self._period_seconds * (_QUIET_PERIODS if self._looker.is_quiet else 1.0)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tell(self, followers: list[Follower]) -> None:
        """Tell followers, a few at a time: writing to all of them at once would keep others waiting."""
        for follower in followers[:_TOLD_AT_ONCE]:
            if follower in self._followers and self._reading is not None:
                follower.tell(self._reading)
        if len(followers) > _TOLD_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._tell, followers[_TOLD_AT_ONCE:])

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
