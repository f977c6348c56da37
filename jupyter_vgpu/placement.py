"""Choose the devices that a new slice goes on.

Pure functions: the caller passes what is known about the devices and gets a
decision back. Nothing here reads NVML, the clock or the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_vgpu.errors import BadValueError, NoCapacityError
from jupyter_vgpu.model import Device, Grant, Profile
from jupyter_vgpu.units import MIB, PPM, format_bytes, format_ppm


@dataclass(frozen=True)
class Room:
    """What is free on one device: promised to no claim.

    Attributes:
        uuid: The device.
        name: The maker's name of the board, for messages.
        total_bytes: Memory of the device.
        free_bytes: Memory not promised; negative where the device shrank under its claims.
        free_share_ppm: Share not promised, in parts per million.
    """

    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    free_share_ppm: int

    @property
    def is_empty(self) -> bool:
        """Whether no claim has any part of the device."""
        return self.free_bytes == self.total_bytes and self.free_share_ppm == PPM


def rooms(devices: Iterable[Device], grants: Iterable[Grant]) -> list[Room]:
    """Return what `grants` leave of `devices`, in the devices' order."""
    memory_bytes: dict[str, int] = {}
    share_ppm: dict[str, int] = {}
    for grant in grants:
        memory_bytes[grant.uuid] = memory_bytes.get(grant.uuid, 0) + grant.memory_bytes
        share_ppm[grant.uuid] = share_ppm.get(grant.uuid, 0) + grant.share_ppm
    return [
        Room(
            uuid=device.uuid,
            name=device.name,
            total_bytes=device.total_bytes,
            free_bytes=device.total_bytes - memory_bytes.get(device.uuid, 0),
            free_share_ppm=PPM - share_ppm.get(device.uuid, 0),
        )
        for device in devices
    ]


def grant_on(room: Room, profile: Profile) -> Grant:
    """Return what `profile` means on the device of `room`, free or not.

    Raises:
        BadValueError: It means nothing there: no memory, or a ceiling below the share.
    """
    memory_bytes = room.total_bytes if profile.backend == "whole" else profile.memory.of(room.total_bytes)
    share_ppm = profile.share_on(room.total_bytes)
    if memory_bytes < MIB:
        raise BadValueError(f"memory of profile {profile.name!r}", memory_bytes, "at least 1MiB of a device is")
    if profile.ceiling_ppm < share_ppm:
        raise BadValueError(
            f"ceiling of profile {profile.name!r}",
            format_ppm(profile.ceiling_ppm),
            f"at least the share is, and {format_bytes(memory_bytes)} of {format_bytes(room.total_bytes)} are a share "
            f"of {format_ppm(share_ppm)}",
        )
    return Grant(room.uuid, memory_bytes, share_ppm, profile.ceiling_ppm)


def fits(room: Room, profile: Profile) -> bool:
    """Return whether one device's part of `profile` fits into `room`."""
    grant = grant_on(room, profile)
    if profile.backend == "whole" and not room.is_empty:
        return False
    return grant.memory_bytes <= room.free_bytes and grant.share_ppm <= room.free_share_ppm


def _fullness(room: Room) -> tuple[float, str]:
    """Return the sort key of best fit: least free first; ties by UUID."""
    return room.free_bytes / room.total_bytes + room.free_share_ppm / PPM, room.uuid


def best_fit(rooms: Sequence[Room], profile: Profile) -> tuple[Grant, ...]:
    """Return a grant on each of the fullest devices that still hold the slice.

    Packing tightly keeps whole devices free for the largest profile.

    Args:
        rooms: Free room per device, any order.
        profile: What is asked for, on `profile.devices` different devices.

    Returns:
        One grant per device, fullest device first; ties go to the lowest UUID, so that the answer does not
        depend on NVML's enumeration order.

    Raises:
        NoCapacityError: Too few devices have room. The message names the largest slice that would fit.
        BadValueError: The profile means nothing on these devices.
    """
    chosen = sorted((room for room in rooms if fits(room, profile)), key=_fullness)[: profile.devices]
    if len(chosen) < profile.devices:
        raise NoCapacityError(_refusal(rooms, profile, len(chosen)))
    return tuple(grant_on(room, profile) for room in chosen)


def largest_room(rooms: Sequence[Room]) -> Room | None:
    """Return the device with the largest free slice, `None` when nothing at all is free."""
    free = [room for room in rooms if room.free_bytes >= MIB and room.free_share_ppm > 0]
    if not free:
        return None
    return min(free, key=lambda room: (-min(room.free_bytes / room.total_bytes, room.free_share_ppm / PPM), room.uuid))


def _refusal(rooms: Sequence[Room], profile: Profile, found: int) -> str:
    asked = f"{profile.name!r} does not fit"
    if rooms:
        example = grant_on(rooms[0], profile)
        asked += f" ({format_bytes(example.memory_bytes)} and {format_ppm(example.share_ppm)} of the time of "
        asked += "one device)" if profile.devices == 1 else f"each of {profile.devices} devices; {found} have room)"
    largest = largest_room(rooms)
    if largest is None:
        return f"{asked}: no part of any device is free"
    whole = sum(room.is_empty for room in rooms)
    return (
        f"{asked}: the largest free slice is {format_bytes(largest.free_bytes // MIB * MIB)} with "
        f"{format_ppm(largest.free_share_ppm)} of the time, on {largest.uuid} ({largest.name}); "
        f"{whole} of {len(rooms)} devices are wholly free"
    )
