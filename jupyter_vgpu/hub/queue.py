"""Where servers wait for a slice when none is free.

Everyone comes this way while there is a queue, so that no newcomer takes what another waits for. Places are kept in the
ledger: who asks again after a restart of the hub has not lost theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.errors import NoCapacityError, VGPUError
from jupyter_vgpu.hub.availability import offers
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.holdings import holding_of
from jupyter_vgpu.hub.line import Waiting, estimated_seconds, group_of, in_order, next_in
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.ledger import Place
from jupyter_vgpu.model import PRIORITIES, Profile

# How often it is looked whether something came free that this hub did not give back: `jupyter vgpu run`'s, say.
_LOOK_SECONDS = 2.0
# How long a place is kept for whoever has not asked again after a restart of the hub.
_KEPT_SECONDS = 600.0


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


@dataclass
class _Wait:
    waiting: Waiting
    place: Place
    uid: int
    profile: Profile
    groups: Sequence[str]
    over_quota: bool
    granted: asyncio.Future[GrantedClaim]


class WaitingRoom(LoggingConfigurable):
    """One hub's queue."""

    def __init__(
        self,
        desk: ClaimDesk,
        timeout_seconds: float,
        length: int = 100,
        patience_seconds: float = 300.0,
        weights: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what it works by; see `VGPUHub.queue_…`.

        Args:
            desk: Where claims are made.
            timeout_seconds: Longest wait; 0 = nobody waits.
            length: Most who may wait.
            patience_seconds: Longest time that others may overtake.
            weights: Group → weight.
            **kwargs: As for every configurable: `parent`, `log`.
        """
        super().__init__(**kwargs)
        self.timeout_seconds = timeout_seconds
        self._desk = desk
        self._length = length
        self._patience_seconds = patience_seconds
        self._weights = dict(weights or {})
        self._waits: dict[ServerKey, _Wait] = {}
        self._held: dict[str, float] = {}
        self._server: asyncio.Task[None] | None = None

    async def claim(
        self, key: ServerKey, uid: int, profile: Profile, groups: Sequence[str] = (), over_quota: bool = False
    ) -> GrantedClaim:
        """Return a new claim for a server, when its turn has come; arguments as for `ClaimDesk.take`.

        Raises:
            NoCapacityError: Nothing came free in time, the queue is full, or it would never fit.
            CancelledWaitError: Somebody cancelled the wait.
            VGPUError: What else the agent, the ledger or the quotas refused.
        """
        if not self.timeout_seconds:
            return await self._desk.take(key, uid, profile, groups, over_quota)
        # What a start that the hub's end broke off has left behind must not be waited for, nor counted.
        await self._desk.give_back(key, "", "superseded by a new start")
        await self._refuse_at_once(key, profile, groups, over_quota)
        place = await self._desk.in_ledger(self._desk.ledger.queue_up, *key, profile.name)
        wait = self._seat(key, place, uid, profile, groups, over_quota)
        outcome = ""
        try:
            granted = await asyncio.wait_for(asyncio.shield(wait.granted), self.timeout_seconds)
            outcome = "granted"
            return granted
        except asyncio.TimeoutError:
            outcome = "timed out"
            where = self.position(key)
            raise NoCapacityError(
                f"{profile.name!r} did not come free within {_for_people(self.timeout_seconds)}"
                + (f"; you were number {where.place} of {where.of}" if where else "")
                + ": start again to go on waiting, or choose a smaller profile"
            ) from None
        except VGPUError as error:
            outcome = error.reason
            raise
        finally:
            await self._leave(key, wait, outcome)

    async def _refuse_at_once(self, key: ServerKey, profile: Profile, groups: Sequence[str], over_quota: bool) -> None:
        devices = await self._desk.devices()
        (offer,) = offers([profile], devices)
        if not offer.total:
            raise NoCapacityError(f"{profile.name!r} does not fit, however long you wait: {offer.obstacle}")
        if not over_quota:
            await self._desk.check_quota(key, profile, groups, devices)
        if key not in self._waits and len(self._waits) >= self._length:
            raise NoCapacityError(
                f"{len(self._waits)} servers wait for a GPU already, and no more may: try again later, or choose a "
                "profile without one"
            )

    def _seat(
        self, key: ServerKey, place: Place, uid: int, profile: Profile, groups: Sequence[str], over_quota: bool
    ) -> _Wait:
        waiting = Waiting(
            key=key,
            group=group_of(groups, self._weights),
            share=max(profile.share_ppm, 1) / 1e6 * profile.devices,
            priority=PRIORITIES.index(profile.priority),
            arrived_at=place.arrived_at.timestamp(),
        )
        granted: asyncio.Future[GrantedClaim] = asyncio.get_running_loop().create_future()
        wait = self._waits[key] = _Wait(waiting, place, uid, profile, groups, over_quota, granted)
        self._desk.freed.set()
        if self._server is None or self._server.done():
            self._server = asyncio.ensure_future(self._serve())
        return wait

    async def _leave(self, key: ServerKey, wait: _Wait, outcome: str) -> None:
        """Take a server off the line; a place whose wait was broken off by the hub's own end is kept."""
        if self._waits.get(key) is wait:
            del self._waits[key]
        if outcome != "granted":
            if wait.granted.done() and not wait.granted.cancelled() and wait.granted.exception() is None:
                await self._desk.give_back(key, wait.granted.result().claim["claim"], "it came when nobody waited")
            wait.granted.cancel()
        if outcome:
            try:
                await self._desk.in_ledger(self._desk.ledger.leave_queue, wait.place.place_id, outcome)
            except VGPUError as error:
                self.log.error("that %s waits no more is not written down: %s", tenant_name(*key), error)

    async def _serve(self) -> None:
        """Give out what is free, in order, until nobody waits."""
        while self._waits:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._desk.freed.wait(), _LOOK_SECONDS)
            self._desk.freed.clear()
            try:
                while await self._serve_one():
                    pass
            except VGPUError as error:
                self.log.warning("nobody who waits can be served now: %s", error)
            except Exception:
                self.log.exception("serving those who wait failed; trying again")

    async def _serve_one(self) -> bool:
        """Serve who is next, if somebody is; return whether to look again."""
        devices = await self._desk.devices()
        self._held = await self._held_by_groups()
        free = {
            profile.name: offers([profile], devices)[0].can_be_had
            for profile in {wait.profile.name: wait.profile for wait in self._waits.values()}.values()
        }
        order = [one for one in self._order() if not self._waits[one.key].granted.done()]
        chosen = next_in(
            order, lambda one: free[self._waits[one.key].profile.name], time.time(), self._patience_seconds
        )
        if chosen is None:
            return False
        wait = self._waits[chosen.key]
        try:
            granted = await self._desk.take(chosen.key, wait.uid, wait.profile, wait.groups, wait.over_quota)
        except NoCapacityError:
            return False  # another hub was faster, or the agent knows better
        except VGPUError as error:
            if not wait.granted.done():
                wait.granted.set_exception(error)
            return True
        if wait.granted.done():
            await self._desk.give_back(chosen.key, granted.claim["claim"], "it came when nobody waited")
        else:
            wait.granted.set_result(granted)
        return True

    def _order(self) -> list[Waiting]:
        return in_order((wait.waiting for wait in self._waits.values()), self._held, self._weights)

    async def _held_by_groups(self) -> dict[str, float]:
        """Return what each group that has a weight holds now, and `""` the others together, in devices."""
        held: dict[str, float] = {}
        for entry in await self._desk.in_ledger(self._desk.ledger.open_entries) if self._weights else ():
            group = group_of(entry.groups, self._weights)
            held[group] = held.get(group, 0.0) + holding_of(entry).share
        return held

    def position(self, key: ServerKey) -> Position | None:
        """Return where a server stands; `None` when it does not wait."""
        order = [one.key for one in self._order()]
        if key not in order:
            return None
        place = order.index(key) + 1
        return Position(place, len(order), estimated_seconds(place, list(self._desk.ends), time.time()))

    def cancel(self, key: ServerKey, by: str) -> bool:
        """End a server's wait; return whether it waited.

        Args:
            key: The server.
            by: Who cancelled, for the message.
        """
        wait = self._waits.get(key)
        if wait is None or wait.granted.done():
            return False
        wait.granted.set_exception(CancelledWaitError(f"the wait for {wait.profile.name!r} was cancelled by {by}"))
        self.log.info("%s waits no more: cancelled by %s", tenant_name(*key), by)
        return True

    async def forget_the_lost(self) -> None:
        """After a while, give up the places of those who have not asked again since the hub started."""
        await asyncio.sleep(_KEPT_SECONDS)
        try:
            for place in await self._desk.in_ledger(self._desk.ledger.places):
                if (place.user, place.server) not in self._waits:
                    await self._desk.in_ledger(self._desk.ledger.leave_queue, place.place_id, "did not come back")
        except VGPUError as error:
            self.log.warning("places in the queue cannot be tidied now: %s", error)


def sentence(position: Position) -> str:
    """Return for people where one stands."""
    about = f"; about {_for_people(position.seconds)} at the pace of the last hours" if position.seconds else ""
    return f"Waiting for a GPU: number {position.place} of {position.of} in the queue{about}"


def _for_people(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{round(seconds / 3600, 1):.10g} hours"
