"""Look at the agent for everybody who has a spawn page open: once for all of them, and only while there are any."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.availability import End
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.ledger import Entry

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Sight:
    """What was seen.

    Attributes:
        devices: The node's devices; `None` = the agent did not answer.
        ends: Slices whose end is known.
        trouble: Why something is missing; empty when nothing is.
    """

    devices: list[DeviceInfo] | None = None
    ends: tuple[End, ...] = ()
    trouble: str = ""


class Watch(LoggingConfigurable):
    """What is free on the node, for many at once."""

    def __init__(self, desk: ClaimDesk, max_hours: Callable[[Entry], float | None], **kwargs: Any) -> None:
        """Take what it asks.

        Args:
            desk: Where claims are made.
            max_hours: Longest time of a claim in hours; `None` = not limited.
            **kwargs: As for every configurable: `parent`, `log`.
        """
        super().__init__(**kwargs)
        self._desk = desk
        self._max_hours = max_hours
        self._next: asyncio.Task[Sight] | None = None
        self._last = Sight()

    async def look(self) -> Sight:
        """Return what there is now. Never raises a `VGPUError`."""
        try:
            devices = await self._desk.devices()
        except VGPUError as error:
            return Sight(trouble=str(error))
        try:
            return Sight(devices, await self._ends())
        except VGPUError as error:
            return Sight(devices, trouble=str(error))

    async def later(self) -> Sight:
        """Return what there is about a second from now; who asks meanwhile is told the same.

        While nothing changes it is the same object.
        """
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(self._look_later())
        return await asyncio.shield(self._next)

    async def _look_later(self) -> Sight:
        await asyncio.sleep(_LOOK_SECONDS)
        sight = await self.look()
        if sight != self._last:
            self._last = sight
        return self._last

    async def _ends(self) -> tuple[End, ...]:
        found = []
        for entry in await self._desk.in_ledger(self._desk.ledger.open_entries):
            hours = self._max_hours(entry)
            if hours is not None and entry.bound_at is not None:
                # Who is over their time is stopped within a minute.
                found.append(End(max(entry.bound_at.timestamp() + hours * 3600, time.time()), entry.devices))
        return tuple(found)
