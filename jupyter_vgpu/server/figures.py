"""One look at the user's slice, through the agent, as a plain answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyter_vgpu.client import EventInfo, SliceFollower, SliceInfo, UsageInfo
from jupyter_vgpu.errors import UnknownClaimError, VGPUError
from jupyter_vgpu.server.notebooks import Kernel, NotebookInfo, Starters, by_notebook

OK = "ok"
NO_SLICE = "no-slice"

_SLICE_SECONDS = 10.0
_MOST_EVENTS = 20
# While nothing changes but the time, there are new figures this often: so long the agent may keep its answer back.
QUIET_SECONDS = 5.0
# What it kept back so long, or an agent that keeps nothing back answered so long after, is worth telling.
_NEW_AFTER_SECONDS = 0.8 * QUIET_SECONDS

_WITHOUT_SLICE = (
    "This server has no GPU slice: it was started without one. "
    "Choose a GPU profile when you start your server, or start it with `jupyter vgpu run`."
)


@dataclass(frozen=True)
class Figures:
    """What is known about the slice at one moment.

    Attributes:
        state: `"ok"`, `"no-slice"`, or the `reason` of the `VGPUError` that
            stood in the way (`"agent-unreachable"`, `"unknown-claim"`, ...).
        message: One sentence for the user; empty when the state is `"ok"`.
        slice_info: SLICE as in `docs/contracts.md`; `None` unless `"ok"`.
        usage: USAGE as in `docs/contracts.md`; `None` unless `"ok"`.
        notebooks: What each notebook uses of it; empty unless `"ok"`.
        events: What the agent noticed about it, oldest first; empty unless `"ok"`.
    """

    state: str
    message: str = ""
    slice_info: SliceInfo | None = None
    usage: UsageInfo | None = None
    notebooks: list[NotebookInfo] = field(default_factory=list)
    events: list[EventInfo] = field(default_factory=list)


class SliceLooker:
    """Looks at the slice again and again, from one event loop, one look at a time.

    What the slice is changes seldom, as what the agent notices: they are asked for every tenth second. What it uses, at
    each look.

    Attributes:
        usage: As last seen; `None` where there is none.
        is_quiet: Whether nothing but the time has changed lately.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.usage: UsageInfo | None = None
        self.is_quiet = False
        self._follower: SliceFollower | None = None
        self._slice: SliceInfo | None = None
        self._slice_at = 0.0
        self._events: list[EventInfo] = []
        self._kernels: list[Kernel] = []
        self._starters = Starters()
        self._figures: Figures | None = None
        self._figures_at = 0.0

    async def look(self, kernels: Sequence[Kernel] = (), may_wait: bool = False) -> Figures:
        """Return the slice and its use, or why there is none; what was returned last while nothing has changed.

        Takes as long as the follower's time limit at most (5 s a question).

        Args:
            kernels: The server's Jupyter kernels, among which the use is split.
            may_wait: Whether that may take `QUIET_SECONDS` longer while nothing changes.
        """
        if self._follower is None:
            try:
                self._follower = SliceFollower.from_environment()
            except UnknownClaimError:
                self.is_quiet = True
                return Figures(NO_SLICE, _WITHOUT_SLICE)
        try:
            usage = await self._follower.usage(QUIET_SECONDS if may_wait else 0.0)
            slice_info = await self._fresh_slice(self._follower, usage)
        except VGPUError as error:
            self._slice = self._figures = self.usage = None
            self.is_quiet = False
            return Figures(error.reason, str(error))
        return self._split(slice_info, usage, list(kernels))

    def _split(self, slice_info: SliceInfo, usage: UsageInfo, kernels: list[Kernel]) -> Figures:
        before, self.usage = self.usage, usage
        # What a notebook used between two looks is nothing for sure when nothing had changed before either.
        was_same, self.is_quiet = self.is_quiet, before is not None and self._is_same(before, usage, kernels)
        self._kernels = kernels
        known, now = self._figures, time.monotonic()
        is_known = known is not None and known.slice_info is slice_info and now - self._figures_at < _NEW_AFTER_SECONDS
        if known is not None and is_known and was_same and self.is_quiet:
            return known
        self._starters.keep(usage["processes"])
        notebooks = by_notebook(usage, before, kernels, self._starters.starter)
        self._figures = Figures(OK, slice_info=slice_info, usage=usage, notebooks=notebooks, events=self._events)
        self._figures_at = now
        return self._figures

    def _is_same(self, before: UsageInfo, usage: UsageInfo, kernels: list[Kernel]) -> bool:
        """Return whether nothing has changed but the time, and when the slice was last verified."""
        untimed = [
            {**one, "time": 0, "enforced_by": {**one["enforced_by"], "verified_at": 0}} for one in (before, usage)
        ]
        return untimed[0] == untimed[1] and kernels == self._kernels

    def close(self) -> None:
        """Hang up until the next look."""
        if self._follower is not None:
            self._follower.close()

    async def _fresh_slice(self, follower: SliceFollower, usage: UsageInfo) -> SliceInfo:
        now = time.monotonic()
        known = self._slice
        if known is None or known["claim"] != usage["claim"] or now - self._slice_at >= _SLICE_SECONDS:
            known = self._slice = await follower.slice()
            self._events = await _events(follower)
            self._slice_at = now
        return known


async def _events(follower: SliceFollower) -> list[EventInfo]:
    """Return the newest events; an agent of an older version has none to tell."""
    try:
        return (await follower.events())[-_MOST_EVENTS:]
    except VGPUError:
        return []
