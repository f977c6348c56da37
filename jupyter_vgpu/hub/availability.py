"""How many slices of each profile could be had now, for the spawn page.

Pure functions over the agent's list of devices. The agent decides; this only
says what it would probably answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Profile
from jupyter_vgpu.placement import Room, fits, grant_on
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
    """

    profile: Profile
    free: int | None
    total: int | None
    obstacle: str = ""
    can_wait: bool = False
    refusal: str = ""

    @property
    def can_be_had(self) -> bool:
        """Whether it is worth asking for one."""
        return self.free is not None and self.free > 0

    @property
    def can_be_chosen(self) -> bool:
        """Whether the user may ask for one: now, or to wait for it."""
        return not self.refusal and (self.can_be_had or (self.can_wait and bool(self.total)))


def offers(profiles: Sequence[Profile], devices: Sequence[DeviceInfo] | None) -> list[Offer]:
    """Return one offer per profile, in their order.

    Args:
        profiles: What the admin offers.
        devices: The agent's answer, `None` when it gave none.
    """
    if devices is None:
        return [Offer(profile, None, None, "the GPU agent of this node does not answer") for profile in profiles]
    return [_offer(profile, devices) for profile in profiles]


def _offer(profile: Profile, devices: Sequence[DeviceInfo]) -> Offer:
    try:
        free = _gangs([_parts(profile, _room(device)) for device in devices], profile.devices)
        total = _gangs([_parts(profile, _empty(_room(device))) for device in devices], profile.devices)
    except BadValueError as error:
        return Offer(profile, 0, 0, str(error))
    return Offer(profile, free, total, "" if free else _obstacle(profile, devices, total))


def _room(device: DeviceInfo) -> Room:
    return Room(
        uuid=device["uuid"],
        name=device["name"],
        total_bytes=device["total_bytes"],
        free_bytes=device["free_bytes"],
        free_share_ppm=round(device["free_share"] * PPM),
    )


def _empty(room: Room) -> Room:
    return replace(room, free_bytes=room.total_bytes, free_share_ppm=PPM)


def _parts(profile: Profile, room: Room) -> int:
    """Return how many slices of `profile` fit into one device's room, >= 0.

    Raises:
        BadValueError: The profile means nothing on this device.
    """
    if not fits(room, profile):
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
    if not devices:
        return "this node has no GPU"
    if profile.devices > len(devices):
        return f"it needs {profile.devices} GPUs, this node has {len(devices)}"
    largest = max(device["total_bytes"] for device in devices)
    needed = format_bytes(profile.memory.of(largest))
    return f"it needs {needed} on one GPU, the largest here has {format_bytes(largest)}"
