"""Where servers wait for a slice when none is free.

Everyone comes this way while there is a queue, so that no newcomer takes what another waits for. Places are kept in the
ledger: a restart of the hub loses none, see `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import DeviceInfo, GrantedClaim, room_of
from jupyter_vgpu.errors import AgentUnreachableError, NoCapacityError, VGPUError
from jupyter_vgpu.hub.availability import offers
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.holdings import holding_of
from jupyter_vgpu.hub.keeping import kept_for, leaves
from jupyter_vgpu.hub.line import Line, Waiting, estimated_seconds, group_of, next_in
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.ledger import LedgerError, Place
from jupyter_vgpu.model import PRIORITIES, Profile

# How often it is looked whether something came free that this hub did not give back: `jupyter vgpu run`'s, say.
_LOOK_SECONDS = 2.0
# How long a place is kept for whoever could not be let in again after a restart of the hub, and has not asked.
KEPT_SECONDS = 600.0

_Wish = tuple[Profile, str]  # what is asked for, and the isolation group of who asks


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
    """What came of waiting: a claim, and for how many seconds it could not be had."""

    granted: GrantedClaim
    waited_seconds: float = 0.0


@dataclass
class _Wait:
    waiting: Waiting
    place: Place
    uid: int
    profile: Profile
    groups: Sequence[str]
    over_quota: bool
    wish: _Wish
    granted: asyncio.Future[Turn]
    passed_over_at: float | None = None  # when it was first seen not to fit


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
        # Who would wait longer than they may is served by nobody's losing patience.
        self._patience_seconds = min(patience_seconds, timeout_seconds / 2)
        self._weights = dict(weights or {})
        self._waits: dict[ServerKey, _Wait] = {}
        self._line = Line(weights=self._weights)
        self._places: dict[ServerKey, int] | None = None  # as `_line` gives them; `None` = it has changed since
        self._held: dict[str, float] = {}
        self._earlier: dict[ServerKey, Place] = {}
        self._door = asyncio.Event()  # nobody is served while it is closed
        self._door.set()
        self._server: asyncio.Task[None] | None = None
        self._hurrying = 0  # starts that did not have to wait and whose claims are being made

    async def claim(
        self, key: ServerKey, uid: int, profile: Profile, groups: Sequence[str] = (), over_quota: bool = False
    ) -> Turn:
        """Return a new claim for a server, when its turn has come; arguments as for `ClaimDesk.take`.

        Raises:
            NoCapacityError: Nothing came free in time, the queue is full, or it would never fit.
            CancelledWaitError: Somebody cancelled the wait.
            VGPUError: What else the agent, the ledger or the quotas refused.
        """
        if not self.timeout_seconds:
            return Turn(await self._desk.take(key, uid, profile, groups, over_quota))
        # What a start that the hub's end broke off has left behind must not be waited for, nor counted.
        devices = await self._desk.clear(key)
        if self._can_be_had_at_once(key, profile, groups, devices):
            self._hurrying += 1
            try:
                granted = await self._desk.take(key, uid, profile, groups, over_quota, devices)
                await self._leave_earlier(key)
                return Turn(granted)
            except NoCapacityError:
                pass  # somebody was faster
            finally:
                self._hurrying -= 1
        await self._refuse_at_once(key, profile, groups, over_quota, devices)
        place = await self._desk.in_ledger(self._desk.ledger.queue_up, *key, profile.name)
        self._earlier.pop(key, None)
        wait = self._seat(key, place, uid, profile, groups, over_quota)
        outcome = ""
        try:
            turn = await asyncio.wait_for(asyncio.shield(wait.granted), self.timeout_seconds)
            outcome = "granted"
            return turn
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

    def _can_be_had_at_once(
        self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo]
    ) -> bool:
        """Return whether nobody waits and it fits beside what is just being claimed; refuse what would never fit.

        Raises:
            NoCapacityError: It would not fit if all were free.
        """
        (offer,) = offers([profile], devices, self._desk.isolation(key[0], groups))
        if not offer.total:
            where = f"{offer.obstacle}{self._desk.silence()}"
            raise NoCapacityError(f"{profile.name!r} does not fit, however long you wait: {where}")
        return (offer.free or 0) > self._hurrying and not self._line and self._door.is_set()

    async def _refuse_at_once(
        self,
        key: ServerKey,
        profile: Profile,
        groups: Sequence[str],
        over_quota: bool,
        devices: Sequence[DeviceInfo],
    ) -> None:
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
        loop = asyncio.get_running_loop()
        wish = profile, self._desk.isolation(key[0], groups)
        # From here on by a clock that nobody sets; what was waited before a restart counts, within reason.
        before = min(max(0.0, time.time() - place.arrived_at.timestamp()), self.timeout_seconds)
        waiting = Waiting(
            key=key,
            group=group_of(groups, self._weights),
            share=max(profile.share_ppm, 1) / 1e6 * profile.devices,
            priority=PRIORITIES.index(profile.priority),
            arrived_at=loop.time() - before,
            number=place.place_id,
            kind=wish,
        )
        granted: asyncio.Future[Turn] = loop.create_future()
        wait = self._waits[key] = _Wait(waiting, place, uid, profile, groups, over_quota, wish, granted)
        if self._line or not self._door.is_set():
            wait.passed_over_at = loop.time()  # for those who came before
        self._line.add(waiting)
        self._places = None
        self._desk.freed.set()
        if self._server is None or self._server.done():
            self._server = asyncio.ensure_future(self._serve())
        return wait

    async def _leave(self, key: ServerKey, wait: _Wait, outcome: str) -> None:
        """Take a server off the line; a place whose wait was broken off by the hub's own end is kept."""
        if self._waits.get(key) is wait:
            del self._waits[key]
            self._take_off_line(key)
        if outcome != "granted":
            if wait.granted.done() and not wait.granted.cancelled() and wait.granted.exception() is None:
                await self._desk.give_back(
                    key, wait.granted.result().granted.claim["claim"], "it came when nobody waited"
                )
            wait.granted.cancel()
        if outcome:
            await self._write_end(key, wait.place, outcome)

    def _take_off_line(self, key: ServerKey) -> None:
        self._line.remove(key)
        self._places = None

    async def _leave_earlier(self, key: ServerKey) -> None:
        """Give up the place that a server had when the hub stopped, if it had one: it does not need it any more."""
        place = self._earlier.pop(key, None)
        if place is not None:
            await self._write_end(key, place, "granted")

    async def _write_end(self, key: ServerKey, place: Place, outcome: str) -> None:
        try:
            await self._desk.in_ledger(self._desk.ledger.leave_queue, place.place_id, outcome)
        except VGPUError as error:
            self.log.error("that %s waits no more is not written down: %s", tenant_name(*key), error)

    async def _serve(self) -> None:
        """Give out what is free, in order, until nobody waits."""
        while self._line:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._desk.freed.wait(), _LOOK_SECONDS)
            await self._door.wait()
            self._desk.freed.clear()
            try:
                refused: set[_Wish] = set()
                while await self._serve_one(refused):
                    pass
            except VGPUError as error:
                self.log.warning("nobody who waits can be served now: %s", error)
            except Exception:
                self.log.exception("serving those who wait failed; trying again")

    async def _serve_one(self, refused: set[_Wish]) -> bool:
        """Serve who is next, if somebody is; return whether to look again.

        Args:
            refused: What the agent has refused since the last pause, though it looked as if it would fit; added to.
        """
        looked_at = asyncio.get_running_loop().time()
        devices = await self._desk.devices()
        self._held = await self._held_by_groups()
        self._places = None
        wishes = {wait.wish for wait in self._waits.values() if not wait.granted.done()}
        fitting = {wish for wish in wishes - refused if offers([wish[0]], devices, wish[1])[0].can_be_had}
        chosen = self._next(devices, fitting, looked_at) if fitting else None
        for wait in self._waits.values():
            if wait.passed_over_at is None and (chosen is None or wait.wish not in fitting):
                wait.passed_over_at = looked_at
        if chosen is None:
            return False
        wait = self._waits[chosen.key]
        try:
            granted = await self._desk.take(chosen.key, wait.uid, wait.profile, wait.groups, wait.over_quota, devices)
        except NoCapacityError:
            refused.add(wait.wish)  # another hub was faster, or the agent knows better
            return True
        except (AgentUnreachableError, LedgerError):
            raise  # no fault of who waits
        except VGPUError as error:
            if not wait.granted.done():
                wait.granted.set_exception(error)
                self._take_off_line(chosen.key)
            return True
        if wait.granted.done():
            await self._desk.give_back(chosen.key, granted.claim["claim"], "it came when nobody waited")
        else:
            waited = 0.0 if wait.passed_over_at is None else looked_at - wait.passed_over_at
            wait.granted.set_result(Turn(granted, waited))
            self._take_off_line(chosen.key)
        return True

    def _next(self, devices: Sequence[DeviceInfo], fitting: set[_Wish], now: float) -> Waiting | None:
        """Return who is next, of whose wishes some are `fitting`."""
        rooms = [room_of(device) for device in devices]
        known: dict[tuple[_Wish, _Wish], bool] = {}

        def leaves_room(one: Waiting, first: Waiting) -> bool:
            wish, waited_for = self._waits[one.key].wish, self._waits[first.key].wish
            if (wish, waited_for) not in known:
                kept = kept_for(waited_for[0], rooms, waited_for[1])
                known[wish, waited_for] = leaves(wish[0], rooms, kept, wish[1], self._desk.is_spread)
            return known[wish, waited_for]

        return next_in(
            self._line.heads(self._held),
            lambda one: self._waits[one.key].wish in fitting,
            now,
            self._patience_seconds,
            leaves_room,
        )

    async def _held_by_groups(self) -> dict[str, float]:
        """Return what each group that has a weight holds now, and `""` the others together, in devices."""
        held: dict[str, float] = {}
        for entry in await self._desk.in_ledger(self._desk.ledger.open_entries) if self._weights else ():
            group = group_of(entry.groups, self._weights)
            held[group] = held.get(group, 0.0) + holding_of(entry).share
        return held

    def position(self, key: ServerKey) -> Position | None:
        """Return where a server stands; `None` when it does not wait."""
        if self._places is None:
            self._places = {one.key: place for place, one in enumerate(self._line.in_order(self._held), 1)}
        place = self._places.get(key)
        if place is None:
            return None
        return Position(place, len(self._places), estimated_seconds(place, list(self._desk.ends), time.time()))

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
        self._take_off_line(key)
        self.log.info("%s waits no more: cancelled by %s", tenant_name(*key), by)
        return True

    # After a restart of the hub

    def close_door(self) -> None:
        """Let nobody be served, until those who waited when the hub stopped stand in line again."""
        self._door.clear()

    def open_door(self) -> None:
        """Serve whoever waits."""
        self._door.set()

    async def recall(self) -> list[Place]:
        """Return who waited when the hub stopped and has not asked again, in order of arrival.

        Raises:
            LedgerError: The ledger does not answer.
        """
        places = await self._desk.in_ledger(self._desk.ledger.places)
        self._earlier = {(place.user, place.server): place for place in places}
        for key in self._waits:
            self._earlier.pop(key, None)
        return list(self._earlier.values())

    def is_lost(self, place: Place) -> bool:
        """Return whether nobody stands in a place of `recall`, and nobody has left it."""
        return self._earlier.get((place.user, place.server)) == place

    async def forget(self, place: Place, because: str) -> None:
        """Give up a place of `recall` that nobody came back to."""
        if self._earlier.pop((place.user, place.server), None) is not None:
            await self._write_end((place.user, place.server), place, because)


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
