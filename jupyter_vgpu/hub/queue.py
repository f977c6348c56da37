"""Where servers wait for a slice when none is free.

Everyone comes this way while there is a queue, so that no newcomer takes what another waits for. Places are kept in the
ledger: a restart of the hub loses none, see `resuming`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from traitlets.config import LoggingConfigurable

from jupyter_vgpu.client import DeviceInfo, GrantedClaim, room_of
from jupyter_vgpu.errors import AgentUnreachableError, NoCapacityError, VGPUError
from jupyter_vgpu.hub.availability import offers
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.holdings import holding_of
from jupyter_vgpu.hub.line import Line, Waiting, estimated_seconds, group_of
from jupyter_vgpu.hub.picking import Picking, Wish, as_left
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.hub.timing import Stopwatch, resumed
from jupyter_vgpu.hub.waits import CancelledWaitError, Look, Position, Turn, Wait, for_people, look_after
from jupyter_vgpu.ledger import Entry, LedgerError, Place
from jupyter_vgpu.model import PRIORITIES, Profile

# How often it is looked whether something came free that this hub did not give back: `jupyter vgpu run`'s, say.
_LOOK_SECONDS = 2.0
# How long a place is kept for whoever could not be let in again after a restart of the hub, and has not asked.
KEPT_SECONDS = 600.0


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
        self._waits: dict[ServerKey, Wait] = {}
        self._line = Line(weights=self._weights)
        self._places: dict[ServerKey, int] | None = None  # as `_line` gives them; `None` = it has changed since
        self._held: dict[str, float] = {}
        self._earlier: dict[ServerKey, Place] = {}
        self._door = asyncio.Event()  # nobody is served while it is closed
        self._door.set()
        self._opened_at = 0.0
        self._server: asyncio.Task[None] | None = None
        self._unheard: set[ServerKey] = set()  # who wait, and whose claims may have been made all the same
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
        if self._is_closed:
            self._refuse_if_full(key)
            _, place = await self._desk.clear_and(
                key, lambda devices: self._stand_in_line(key, profile, groups, over_quota, devices)
            )
        else:
            devices = await self._desk.clear(key)
            if self._can_be_had_at_once(key, profile, groups, devices):
                self._hurrying += 1
                try:
                    earlier = self._earlier.get(key)
                    granted = await self._desk.take(key, uid, profile, groups, over_quota, devices, earlier)
                    self._earlier.pop(key, None)
                    return Turn(granted)
                except NoCapacityError:
                    pass  # somebody was faster
                finally:
                    self._hurrying -= 1
            self._refuse_if_full(key)
            place = await self._desk.ask(self._desk.queue_up, key, profile, groups, devices, over_quota)
        return await self._wait(key, place, uid, profile, groups, over_quota)

    @property
    def _is_closed(self) -> bool:
        """Whether whoever comes now has to wait for others first."""
        return bool(self._line) or not self._door.is_set()

    async def _wait(
        self, key: ServerKey, place: Place, uid: int, profile: Profile, groups: Sequence[str], over_quota: bool
    ) -> Turn:
        self._earlier.pop(key, None)
        wait = self._seat(key, place, uid, profile, groups, over_quota)
        outcome = ""
        try:
            turn = await asyncio.wait_for(asyncio.shield(wait.granted), self.timeout_seconds)
            resumed(turn.ready_at)
            outcome = "granted"
            return turn
        except asyncio.TimeoutError:
            outcome = "timed out"
            where = self.position(key)
            raise NoCapacityError(
                f"{profile.name!r} did not come free within {for_people(self.timeout_seconds)}"
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
        return self._free_now(key, profile, groups, devices) > self._hurrying and not self._is_closed

    def _free_now(self, key: ServerKey, profile: Profile, groups: Sequence[str], devices: Sequence[DeviceInfo]) -> int:
        """Return how many slices of `profile` are free.

        Raises:
            NoCapacityError: None would be if nobody had any.
        """
        (offer,) = offers([profile], devices, self._desk.isolation(key[0], groups))
        if not offer.total:
            where = f"{offer.obstacle}{self._desk.silence()}"
            raise NoCapacityError(f"{profile.name!r} does not fit, however long you wait: {where}")
        return offer.free or 0

    def _stand_in_line(
        self,
        key: ServerKey,
        profile: Profile,
        groups: Sequence[str],
        over_quota: bool,
        devices: Sequence[DeviceInfo],
    ) -> Place:
        """Return a place for what fits and may be had, some time; runs in a thread."""
        self._free_now(key, profile, groups, devices)
        return self._desk.queue_up(key, profile, groups, devices, over_quota)

    def _refuse_if_full(self, key: ServerKey) -> None:
        if key not in self._waits and len(self._waits) >= self._length:
            raise NoCapacityError(
                f"{len(self._waits)} servers wait for a GPU already, and no more may: try again later, or choose a "
                "profile without one"
            )

    def _seat(
        self, key: ServerKey, place: Place, uid: int, profile: Profile, groups: Sequence[str], over_quota: bool
    ) -> Wait:
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
        wait = self._waits[key] = Wait(waiting, place, uid, profile, groups, over_quota, wish, granted, loop.time())
        self._line.add(waiting)
        self._places = None
        self._desk.freed.ring(is_free=False)
        if self._server is None or self._server.done():
            self._server = asyncio.ensure_future(self._serve())
        return wait

    async def _leave(self, key: ServerKey, wait: Wait, outcome: str) -> None:
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
        if outcome and outcome != "granted":  # that is written down with the claim
            await self._write_end(key, wait.place, outcome)

    def _take_off_line(self, key: ServerKey) -> None:
        self._unheard.discard(key)
        self._line.remove(key)
        self._places = None

    async def _write_end(self, key: ServerKey, place: Place, outcome: str) -> None:
        try:
            await self._desk.in_ledger(self._desk.ledger.places.leave, place.place_id, outcome)
        except VGPUError as error:
            self.log.error("that %s waits no more is not written down: %s", tenant_name(*key), error)

    async def _serve(self) -> None:
        """Give out what is free, in order, until nobody waits."""
        now = asyncio.get_running_loop().time
        look: Look | None = None
        while self._line:
            idle_from = now()
            await self._desk.freed.wait(_LOOK_SECONDS)
            await self._door.wait()
            look = look_after(look, self._desk.freed.hear(), now(), idle_from, self._opened_at)
            try:
                if self._unheard:
                    await self._desk.give_back_unheard(self._unheard)
                    self._unheard.clear()
                refused: set[Wish] = set()
                while await self._serve_some(look, refused):
                    if look.left_nobody:
                        look = look_after(look, self._desk.freed.hear(), now(), now(), self._opened_at, look.began_at)
            except VGPUError as error:
                self.log.warning("nobody who waits can be served now: %s", error)
            except Exception:
                self.log.exception("serving those who wait failed; trying again")

    async def _serve_some(self, look: Look, refused: set[Wish]) -> bool:
        """Serve all for whom there is room; return whether to look again.

        Args:
            look: When and how late it is looked; its lateness is added to, and whether it left nobody is said.
            refused: What the agent has refused since the last pause, though it looked as if it would fit; added to.
        """
        with Stopwatch().running() as stopwatch:
            devices, entries = await self._desk.look() if self._weights else (await self._desk.devices(), [])
        look.late_seconds += stopwatch.late_seconds
        self._held = self._held_by_groups(entries)
        self._places = None
        picking = Picking(
            self._line,
            lambda one: self._waits[one.key].wish,
            look.began_at,
            self._patience_seconds,
            self._desk.is_spread,
            refused,
        )
        chosen = picking.picks([room_of(device) for device in devices], self._held)
        if not chosen:
            look.left_nobody = not refused
            return False
        waits = [self._waits[one.key] for one, _ in chosen]
        claims = self._desk.take_in_turn(
            [wait.ask(as_left(devices, rooms)) for wait, (_, rooms) in zip(waits, chosen, strict=True)]
        )
        grants = [self._grant(wait, claim, look, refused) for wait, claim in zip(waits, claims, strict=True)]
        ended = await asyncio.gather(*grants, return_exceptions=True)
        for trouble in ended:
            if isinstance(trouble, Exception):
                raise trouble
        look.left_nobody = all(end is True for end in ended) and len(chosen) < picking.most
        return True

    async def _grant(self, wait: Wait, claim: Awaitable[GrantedClaim], look: Look, refused: set[Wish]) -> bool:
        """Give somebody their claim, and return whether they have it."""
        key = wait.waiting.key
        try:
            with Stopwatch().running() as stopwatch:
                granted = await claim
        except NoCapacityError:
            refused.add(wait.wish)  # another hub was faster, or the agent knows better
            return False
        except (AgentUnreachableError, LedgerError):
            self._unheard.add(key)
            raise  # it is no fault of who waits
        except VGPUError as error:
            if not wait.granted.done():
                wait.granted.set_exception(error)
                self._take_off_line(key)
            return False
        if wait.granted.done():
            await self._desk.give_back(key, granted.claim["claim"], "it came when nobody waited")
            return False
        waited = max(0.0, look.free_for(wait.seated_at, self._opened_at) - wait.seated_at)
        late = max(0.0, look.began_at - max(look.ready_at, wait.seated_at)) + look.late_seconds
        wait.granted.set_result(Turn(granted, waited, late + stopwatch.late_seconds, time.monotonic()))
        self._take_off_line(key)
        return True

    def _held_by_groups(self, entries: Sequence[Entry]) -> dict[str, float]:
        """Return what each group that has a weight holds now, and `""` the others together, in devices."""
        held: dict[str, float] = {}
        for entry in entries:
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
        if not self._door.is_set():
            self._opened_at = asyncio.get_running_loop().time()
        self._door.set()

    async def recall(self) -> list[Place]:
        """Return who waited when the hub stopped and has not asked again, in order of arrival.

        Raises:
            LedgerError: The ledger does not answer.
        """
        places = await self._desk.in_ledger(self._desk.ledger.places.all)
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
