"""Who of those who wait is served by one look at the devices: all for whom there is room, not one at a time.

Pure. The hub foresees where the agent will put each slice, so that what one is given is not promised to the next; the
agent has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.keeping import kept_for, leaves
from jupyter_vgpu.hub.line import Line, Waiting, next_in
from jupyter_vgpu.model import Grant, Profile
from jupyter_vgpu.placement import Room, best_fit
from jupyter_vgpu.units import PPM

Wish = tuple[Profile, str]  # what is asked for, and the isolation group of who asks


@dataclass(frozen=True)
class Picking:
    """How to choose among those who wait.

    Attributes:
        line: Who waits; not changed.
        wish_of: What one asks for.
        now: The time, by the clock of `Waiting.arrived_at`.
        patience_seconds: Longest time that others may overtake, see `line.next_in`.
        is_spread: Whether the agent is asked to spread.
        refused: What the agent has refused though it looked as if it would fit.
        most: Most to choose at once, >= 1: who comes meanwhile is seen at the next look.
    """

    line: Line
    wish_of: Callable[[Waiting], Wish]
    now: float
    patience_seconds: float
    is_spread: bool = False
    refused: Collection[Wish] = ()
    most: int = 32

    def picks(self, rooms: Sequence[Room], held: Mapping[str, float]) -> list[tuple[Waiting, Sequence[Room]]]:
        """Return who is served now, in order, each with the room that those before leave.

        Args:
            rooms: Free room per device, any order.
            held: What each group holds, in devices.
        """
        chosen: dict[tuple[str, str], tuple[Waiting, Sequence[Room]]] = {}
        now_held = dict(held)
        while len(chosen) < self.most:
            one = self._next(rooms, now_held, chosen)
            if one is None:
                break
            chosen[one.key] = one, rooms
            profile, isolation = self.wish_of(one)
            rooms = _less(rooms, best_fit(rooms, profile, isolation, self.is_spread))
            now_held[one.group] = now_held.get(one.group, 0.0) + one.share
        return list(chosen.values())

    def _next(
        self, rooms: Sequence[Room], held: Mapping[str, float], without: Collection[tuple[str, str]]
    ) -> Waiting | None:
        fitting: dict[Wish, bool] = {}
        leaving: dict[tuple[Wish, Wish], bool] = {}

        def fits(one: Waiting) -> bool:
            wish = self.wish_of(one)
            if wish not in fitting:
                fitting[wish] = wish not in self.refused and can_be_placed(rooms, wish, self.is_spread)
            return fitting[wish]

        def leaves_room(one: Waiting, first: Waiting) -> bool:
            both = wish, waited_for = self.wish_of(one), self.wish_of(first)
            if both not in leaving:
                kept = kept_for(waited_for[0], rooms, waited_for[1])
                leaving[both] = leaves(wish[0], rooms, kept, wish[1], self.is_spread)
            return leaving[both]

        return next_in(self.line.heads(held, without), fits, self.now, self.patience_seconds, leaves_room)


def can_be_placed(rooms: Sequence[Room], wish: Wish, is_spread: bool = False) -> bool:
    """Return whether there is room for what one asks for."""
    try:
        return bool(best_fit(rooms, wish[0], wish[1], is_spread))
    except VGPUError:
        return False


def as_left(devices: Sequence[DeviceInfo], rooms: Sequence[Room]) -> list[DeviceInfo]:
    """Return the agent's list of devices with what is free on them taken from `rooms`, which are in the same order."""
    found = [device.copy() for device in devices]
    for device, room in zip(found, rooms, strict=True):
        device["free_bytes"], device["free_share"] = room.free_bytes, room.free_share_ppm / PPM
        device["isolation"] = sorted(room.isolation)
    return found


def _less(rooms: Sequence[Room], grants: Sequence[Grant]) -> list[Room]:
    given = {grant.uuid: grant for grant in grants}
    return [
        room
        if (grant := given.get(room.uuid)) is None
        else replace(
            room,
            free_bytes=room.free_bytes - grant.memory_bytes,
            free_share_ppm=room.free_share_ppm - grant.share_ppm,
            isolation=room.isolation | {grant.isolation},
        )
        for room in rooms
    ]
