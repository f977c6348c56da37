"""A wait for a slice: who waits, for what, what came of it, and what people are told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_vgpu.client import DeviceInfo, GrantedClaim
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.admission import Ask
from jupyter_vgpu.hub.line import Waiting
from jupyter_vgpu.hub.picking import Wish
from jupyter_vgpu.ledger import Place
from jupyter_vgpu.model import Profile


class CancelledWaitError(VGPUError):
    """The user, or an administrator, gave up waiting."""

    reason = "cancelled"
    http_status = 409


@dataclass(frozen=True)
class Position:
    """Where one stands: 1 = next; `seconds` is about how long it will take, `None` when too little is known."""

    place: int
    of: int
    seconds: float | None


@dataclass(frozen=True)
class Turn:
    """What came of waiting.

    Attributes:
        granted: The claim.
        waited_seconds: For how long it could not be had.
        late_seconds: For how long serving it waited for the hub's event loop, see `timing`.
        ready_at: When it was there, by `time.monotonic`.
    """

    granted: GrantedClaim
    waited_seconds: float = 0.0
    late_seconds: float = 0.0
    ready_at: float = 0.0


@dataclass
class Wait:
    """A server in line, and what it asks for; `seated_at`: it could not be had from here on, or not before others."""

    waiting: Waiting
    place: Place
    uid: int
    profile: Profile
    groups: Sequence[str]
    over_quota: bool
    wish: Wish
    granted: asyncio.Future[Turn]
    seated_at: float

    def ask(self, devices: Sequence[DeviceInfo]) -> Ask:
        """Return what it asks for, with `devices` to have it on."""
        key = self.waiting.key
        return Ask(key, self.uid, self.profile, self.groups, self.over_quota, devices, self.place)


@dataclass
class Look:
    """One look at what is free, all by the loop's clock.

    Attributes:
        free_at: When what is free came free, as far as it is known.
        ready_at: When it could have been looked at.
        began_at: When it was.
        late_seconds: Waiting for the event loop since.
    """

    free_at: float
    ready_at: float
    began_at: float
    late_seconds: float = 0.0


def sentence(position: Position) -> str:
    """Return for people where one stands."""
    about = f"; about {for_people(position.seconds)} at the pace of the last hours" if position.seconds else ""
    return f"Waiting for a GPU: number {position.place} of {position.of} in the queue{about}"


def for_people(seconds: float) -> str:
    """Return a time for people, in the unit that suits it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{round(seconds / 3600, 1):.10g} hours"
