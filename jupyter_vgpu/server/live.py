"""Follow the figures: one upstream reader, however many tabs look.

The reader asks the agent only while somebody follows, never twice at a time,
and without blocking, so that an agent that takes long to answer costs the
event loop nothing. Between two looks a server sleeps and grows cold, so what a
look costs is how much of it has to wake up: it takes few turns of the loop.

While nothing changes a look is *held*: the agent keeps its answer back until
something does, or for some seconds. What the server itself can change, its
Jupyter kernels, it hears of meanwhile, or looks after where nobody tells, and
cuts the look short.
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
from jupyter_vgpu.server.figures import QUIET_SECONDS, Figures, SliceLooker
from jupyter_vgpu.server.history import History
from jupyter_vgpu.server.kernel_news import KernelNews
from jupyter_vgpu.server.notebooks import Kernel
from jupyter_vgpu.server.session import SessionInfo

# So many followers are told at a time; in between, the loop serves who else asks.
_TOLD_AT_ONCE = 4

# While nothing changes it is looked less often, and yet often enough for figures to follow within two seconds.
_QUIET_PERIODS = 1.5
# While a look is held only the Jupyter kernels are looked at, where nobody tells of them; what is new is told at once.
_HELD_PERIODS = 1.8

# Longer than any look is held, after which comes a tick anyway: no need to wake up before.
_UNTOLD_SECONDS = 60.0

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
        kernel_news: KernelNews,
        session: Callable[[], SessionInfo],
        log: logging.Logger,
        period_seconds: float = 1.0,
    ) -> None:
        """Start nothing yet.

        Args:
            looker: Looks at the slice.
            list_kernels: Returns the server's Jupyter kernels.
            kernel_news: Tells, or says when it is looked at, that one of them came, went or does something else.
            session: Returns what is known of the server's end.
            log: Where a failure that nobody foresaw is told.
            period_seconds: Time between two looks while somebody follows and figures change, > 0.
        """
        self._looker = looker
        self._list_kernels = list_kernels
        self._kernel_news = kernel_news
        kernel_news.listen(self._on_kernel_news)
        self._session = session
        self.history = History()
        self._log = log
        self._period_seconds = period_seconds
        self._call: asyncio.Task[Reading] | None = None
        self._held: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._seen_states: Sequence[tuple[str, str]] = ()
        self._timer: asyncio.Handle | None = None
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
        """Whether the streams were told something, and would have been told by now if there was anything newer."""
        seconds = self._period_seconds * _QUIET_PERIODS + (QUIET_SECONDS if self._looker.is_quiet else 0.0)
        return bool(self._followers) and time.monotonic() - self._read_at < seconds

    def expect_news(self) -> None:
        """Have the next look make a new reading, though the figures be the same: something else has changed."""
        self._is_news = True

    async def look(self) -> Reading:
        """Return figures that are fresh, see `SliceLooker.look`; several callers at a time share one look."""
        return await asyncio.shield(self._look_now())

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
            self._cut_short()
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
        self._cut_short()
        self._looker.close()

    def _look_now(self) -> asyncio.Task[Reading]:
        """Return the look that somebody began, unless it is held; else a new one."""
        if self._call is None or self._call.done():
            self._cut_short()
            self._call = asyncio.create_task(self._look_upstream())
        return self._call

    @property
    def _is_held(self) -> bool:
        return self._held is not None and not self._held.done()

    def _cut_short(self) -> None:
        """Let the held look end, if there is one; the next begins once it has."""
        if self._held is not None:
            self._held.cancel()
            self._ending, self._held = self._held, None

    async def _hold(self) -> None:
        """Look, with time for something to change; look again a period after it did, or at once where nothing did."""
        began_at = time.monotonic()
        await self._look_upstream(may_wait=True)
        self._held = None
        if self._timer is not None:
            self._timer.cancel()
            took = time.monotonic() - began_at if self._looker.is_quiet else 0.0
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self._pause_seconds - took), self._tick)

    @property
    def _pause_seconds(self) -> float:
        return self._period_seconds * (_QUIET_PERIODS if self._looker.is_quiet else 1.0)

    async def _look_upstream(self, may_wait: bool = False) -> Reading:
        try:
            if self._ending is not None and not self._ending.done():
                await asyncio.wait([self._ending])  # what it asked is not to be mixed up with what is asked now
            self._seen_states = self._states_now()
            figures = await self._looker.look(await self._list_kernels(), may_wait)
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
        """Look, unless somebody does; where nothing has changed lately, or since a held look began, hold it."""
        if self._call is None or self._call.done():
            if not self._looker.is_quiet or not self._is_fresh() or self._states_now() != self._seen_states:
                self._look_now()
            elif not self._is_held:
                self._held = asyncio.create_task(self._hold())
        self._timer = asyncio.get_running_loop().call_later(self._until_tick_seconds(), self._tick)

    def _until_tick_seconds(self) -> float:
        if not self._is_held:
            return self._pause_seconds
        if self._kernel_news.is_told:
            return _UNTOLD_SECONDS
        return self._period_seconds * _HELD_PERIODS

    def _on_kernel_news(self) -> None:
        """Look at once where a look is held; any other look, and the next tick, see the news by themselves."""
        if self._is_held and self._timer is not None:
            self._timer.cancel()
            # Not here: who tells is in the midst of what they do, and what they do next may be news as well.
            self._timer = asyncio.get_running_loop().call_soon(self._tick)

    def _states_now(self) -> Sequence[tuple[str, str]]:
        try:
            return self._kernel_news.states()
        except Exception:
            # A kernel manager may be somebody else's; the next look tells what is wrong with it.
            self._log.exception("jupyter_vgpu: what this server's Jupyter kernels do is not known")
            return ()

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
