"""How many slices of each profile could be had now, for the spawn page, and when there will be one.

Pure functions over the agent's list of devices. The agent decides; this only
says what it would probably answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_vgpu.client import DeviceInfo, room_of
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Profile
from jupyter_vgpu.placement import Room, by_node, fits, grant_on
from jupyter_vgpu.units import PPM, format_bytes


@dataclass(frozen=True)
class Offer:
    """One profile and what there is of it.

    Attributes:
        profile: What is offered.
        free: Slices that fit now; `None` = not known, the agent did not answer.
        total: Slices that fit when nobody has one; `None` = not known.
        obstacle: Why none can be had, in words; empty when one can or nobody knows.
        can_wait: Whether it may be asked for though none is free, since there is a queue.
        refusal: Why this user may not have one; empty = they may.
        free_at: When one is free at the latest, Unix seconds; `None` = now, or not known.
    """

    profile: Profile
    free: int | None
    total: int | None
    obstacle: str = ""
    can_wait: bool = False
    refusal: str = ""
    free_at: float | None = None

    @property
    def can_be_had(self) -> bool:
        """Whether it is worth asking for one."""
        return not self.profile.devices or (self.free is not None and self.free > 0)

    @property
    def can_be_chosen(self) -> bool:
        """Whether the user may ask for one: now, or to wait for it."""
        return not self.refusal and (self.can_be_had or (self.can_wait and bool(self.total)))


@dataclass(frozen=True)
class End:
    """A slice that will be given back.

    Attributes:
        at: When at the latest, Unix seconds.
        devices: What it holds, one mapping with `uuid`, `memory_bytes` and `share` per device.
    """

    at: float
    devices: Sequence[Mapping[str, Any]]


def offers(
    profiles: Sequence[Profile],
    devices: Sequence[DeviceInfo] | None,
    isolation: str = "",
    ends: Iterable[End] = (),
) -> list[Offer]:
    """Return one offer per profile, in their order.

    Args:
        profiles: What the admin offers.
        devices: The agent's answer, `None` when it gave none.
        isolation: The user's isolation group, as the agent calls it; empty = none.
        ends: Slices whose end is known, in any order.
    """
    if devices is None:
        return [Offer(profile, None, None, "the GPU agent of this node does not answer") for profile in profiles]
    in_order = sorted(ends, key=lambda end: end.at)
    return [_offer(profile, devices, isolation, in_order) for profile in profiles]


def _offer(profile: Profile, devices: Sequence[DeviceInfo], isolation: str, ends: Sequence[End]) -> Offer:
    if not profile.devices:
        return Offer(profile, None, None)
    rooms = [room_of(device) for device in devices]
    try:
        free = _slices(profile, rooms, isolation)
        total = _slices(profile, [_empty(room) for room in rooms], isolation)
        if free:
            return Offer(profile, free, total)
        free_at = _free_at(profile, rooms, isolation, ends) if total else None
    except BadValueError as error:
        return Offer(profile, 0, 0, str(error))
    return Offer(profile, free, total, _obstacle(profile, devices, total), free_at=free_at)


def _empty(room: Room) -> Room:
    return replace(room, free_bytes=room.total_bytes, free_share_ppm=PPM, isolation=frozenset())


def _free_at(profile: Profile, rooms: Sequence[Room], isolation: str, ends: Sequence[End]) -> float | None:
    """Return when the first slice fits if what ends is given back and nothing else changes; `None` if never."""
    by_uuid = {room.uuid: room for room in rooms}
    for end in ends:
        for held in end.devices:
            room = by_uuid.get(held["uuid"])
            if room is None:
                continue
            freed = replace(
                room,
                free_bytes=min(room.total_bytes, room.free_bytes + int(held["memory_bytes"])),
                # Parts per million are rounded down: the last to leave leaves nothing behind.
                free_share_ppm=min(PPM, room.free_share_ppm + round(float(held["share"]) * PPM)),
            )
            by_uuid[room.uuid] = _empty(freed) if freed.free_bytes == freed.total_bytes else freed
        if _slices(profile, list(by_uuid.values()), isolation):
            return end.at
    return None


def _slices(profile: Profile, rooms: Sequence[Room], isolation: str) -> int:
    if profile.devices == 1:
        return sum(_parts(profile, room, isolation) for room in rooms)
    return sum(
        _gangs([_parts(profile, room, isolation) for room in of_node], profile.devices)
        for of_node in by_node(rooms).values()
    )


def _parts(profile: Profile, room: Room, isolation: str) -> int:
    """Return how many slices of `profile` fit into one device's room, >= 0.

    Raises:
        BadValueError: The profile means nothing on this device.
    """
    if not fits(room, profile, isolation):
        return 0
    grant = grant_on(room, profile)
    return min(room.free_bytes // grant.memory_bytes, room.free_share_ppm // grant.share_ppm)


def _gangs(rooms: Sequence[int], size: int) -> int:
    """Return how many slices of `size` different devices each fit into `rooms`.

    `n` of them fit exactly if the devices, none giving more than `n` parts, give `n * size` together.
    """
    most = sum(rooms) // size
    while most and sum(min(room, most) for room in rooms) < most * size:
        most -= 1
    return most


def _obstacle(profile: Profile, devices: Sequence[DeviceInfo], total: int) -> str:
    if total:
        return "too much is taken" if any(device["free_share"] > 0 for device in devices) else "all is taken"
    usable = [device for device in devices if not device["drained"]]
    if not usable:
        return "all GPUs of this node are out of use" if devices else "this node has no GPU"
    most = max(Counter(device.get("node", "") for device in usable).values())
    if profile.devices > most:
        out_of_use = len(devices) - len(usable)
        aside = f", and {out_of_use} out of use" if out_of_use else ""
        having = "this node has" if most == len(usable) else "no node has more than"
        return f"it needs {profile.devices} GPUs, {having} {most}{aside}"
    largest = max(device["total_bytes"] for device in usable)
    needed = format_bytes(profile.memory.of(largest))
    return f"it needs {needed} on one GPU, the largest here has {format_bytes(largest)}"
