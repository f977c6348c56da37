"""A wait for a slice: who waits, for what, what came of it, and what people are told meanwhile."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_vgpu.client import DeviceInfo, GrantedClaim
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.admission import Ask
from jupyter_vgpu.hub.bell import Rings
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
        known_at: Who has waited since before then could not have anything at that time.
        late_seconds: Waiting for the event loop since.
        left_nobody: Whether all for whom there was room got it: what others get later came free later.
    """

    free_at: float
    ready_at: float
    began_at: float
    known_at: float
    late_seconds: float = 0.0
    left_nobody: bool = False

    def free_for(self, seated_at: float, opened_at: float) -> float:
        """Return when what is given to somebody came free; not before they came, where nobody had looked for them.

        Args:
            seated_at: When they came.
            opened_at: When the queue began to be served.
        """
        return self.free_at if seated_at < self.known_at else opened_at


def look_after(
    before: Look | None, rings: Rings, now: float, ready_at: float, opened_at: float, otherwise: float | None = None
) -> Look:
    """Return a look that begins now.

    What the one before has left nobody without is not free since longer than that: a bell that was rung earlier was
    answered by it.

    Args:
        before: The look before; `None` = there was none.
        rings: What was heard of the bell since that began.
        now: By the loop's clock.
        ready_at: Since when nothing else was done for those who wait.
        opened_at: When the queue began to be served.
        otherwise: When it came free, where nobody has rung; `None` = now, since another than this hub gave it back.
    """
    known_at = -math.inf if before is None else before.began_at if before.left_nobody else before.known_at
    heard = (at for at in (rings.freed_at, rings.woken_at, otherwise) if at is not None)
    free_at = max(next(heard, now), opened_at)
    return Look(free_at, max(free_at, ready_at), now, known_at)


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
