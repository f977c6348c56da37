"""Choose the devices that a new slice goes on.

Pure functions: the caller passes what is known about the devices and gets a
decision back. Nothing here reads NVML, the clock or the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

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
        is_usable: Whether new claims may come here: it is healthy and not drained.
        isolation: Isolation groups of the claims that are here; `""` is the group of all who have none.
        node: Where the device is, if there are several nodes: a slice of several devices is on one of them.
    """

    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    free_share_ppm: int
    is_usable: bool = True
    isolation: frozenset[str] = frozenset()
    node: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no claim has any part of the device."""
        return self.free_bytes == self.total_bytes and self.free_share_ppm == PPM


def rooms(devices: Iterable[Device], grants: Iterable[Grant], drained: Collection[str] = ()) -> list[Room]:
    """Return what `grants` leave of `devices`, in the devices' order.

    Args:
        devices: The node's devices.
        grants: What is held there.
        drained: UUIDs of devices that take no new claims.
    """
    memory_bytes: dict[str, int] = {}
    share_ppm: dict[str, int] = {}
    isolation: dict[str, set[str]] = {}
    for grant in grants:
        isolation.setdefault(grant.uuid, set()).add(grant.isolation)
        memory_bytes[grant.uuid] = memory_bytes.get(grant.uuid, 0) + grant.memory_bytes
        share_ppm[grant.uuid] = share_ppm.get(grant.uuid, 0) + grant.share_ppm
    return [
        Room(
            uuid=device.uuid,
            name=device.name,
            total_bytes=device.total_bytes,
            free_bytes=device.total_bytes - memory_bytes.get(device.uuid, 0),
            free_share_ppm=PPM - share_ppm.get(device.uuid, 0),
            is_usable=device.uuid not in drained,
            isolation=frozenset(isolation.get(device.uuid, ())),
        )
        for device in devices
    ]


def grant_on(room: Room, profile: Profile) -> Grant:
    """Return what `profile` means on the device of `room`, free or not.

    What is guaranteed of a device to all its grants together is never more than the whole: each is promised at least
    that as its share, and `fits` lets no more shares in.

    Raises:
        BadValueError: It means nothing there: no memory, a ceiling below the share, or a guarantee above it.
    """
    memory_bytes = room.total_bytes if profile.backend == "whole" else profile.memory.of(room.total_bytes)
    share_ppm = profile.share_on(room.total_bytes)
    if memory_bytes < MIB:
        raise BadValueError(f"memory of profile {profile.name!r}", memory_bytes, "at least 1MiB of a device is")
    its_share = (
        f"the share is, and {format_bytes(memory_bytes)} of {format_bytes(room.total_bytes)} are a share "
        f"of {format_ppm(share_ppm)}"
    )
    if profile.ceiling_ppm < share_ppm:
        raise BadValueError(
            f"ceiling of profile {profile.name!r}", format_ppm(profile.ceiling_ppm), f"at least {its_share}"
        )
    if profile.guarantee_ppm > share_ppm:
        raise BadValueError(
            f"guarantee of profile {profile.name!r}", format_ppm(profile.guarantee_ppm), f"at most {its_share}"
        )
    return Grant(room.uuid, memory_bytes, share_ppm, profile.ceiling_ppm, guarantee_ppm=profile.guarantee_ppm)


def fits(room: Room, profile: Profile, isolation: str | None = None) -> bool:
    """Return whether one device's part of `profile` fits into `room`.

    Args:
        room: The device.
        profile: What is asked for.
        isolation: Group that shares a device with nobody else; `""` = those who have none; `None` = it does not matter.
    """
    grant = grant_on(room, profile)
    if not room.is_usable or (isolation is not None and room.isolation - {isolation}):
        return False
    if profile.backend == "whole" and not room.is_empty:
        return False
    return grant.memory_bytes <= room.free_bytes and grant.share_ppm <= room.free_share_ppm


def _fullness(room: Room) -> tuple[float, str]:
    """Return the sort key of best fit: least free first; ties by UUID."""
    return room.free_bytes / room.total_bytes + room.free_share_ppm / PPM, room.uuid


def best_fit(
    rooms: Sequence[Room],
    profile: Profile,
    isolation: str | None = None,
    spread: bool = False,
    distances: Mapping[tuple[str, str], int] | None = None,
) -> tuple[Grant, ...]:
    """Return a grant on each of the fullest devices that still hold the slice.

    Packing tightly keeps whole devices free for the largest profile.

    Args:
        rooms: Free room per device, any order.
        profile: What is asked for, on `profile.devices` different devices.
        isolation: As for `fits`.
        spread: Take the emptiest devices instead: less company for each, and no room for whole ones.
        distances: For several devices: how far two of them (UUIDs, either way round) are from each other, larger =
            slower; those nearest together are taken, before how full they are counts. Pairs not named are 0 apart.

    Returns:
        One grant per device, fullest (or emptiest) device first; ties go to the lowest UUID, so that the answer does
        not depend on NVML's enumeration order.

    Raises:
        NoCapacityError: Too few devices have room. The message names the largest slice that would fit.
        BadValueError: The profile means nothing on these devices.
    """
    chosen = best_rooms(rooms, profile, isolation, spread, distances)
    return tuple(replace(grant_on(room, profile), isolation=isolation or "") for room in chosen)


def best_rooms(
    rooms: Sequence[Room],
    profile: Profile,
    isolation: str | None = None,
    spread: bool = False,
    distances: Mapping[tuple[str, str], int] | None = None,
) -> Sequence[Room]:
    """Return the rooms of the devices that `best_fit` chooses, all of one node; arguments and errors as there."""
    order = _emptiness if spread else _fullness
    able = sorted((room for room in rooms if fits(room, profile, isolation)), key=order)
    if profile.devices > 1:
        able = _of_one_node(able, profile.devices, order)
    if len(able) < profile.devices:
        raise NoCapacityError(_refusal(rooms, profile, len(able)))
    if distances and profile.devices > 1:
        return _nearest(able, profile.devices, distances)
    return able[: profile.devices]


def _of_one_node(able: Sequence[Room], size: int, order: Callable[[Room], tuple[float, str]]) -> list[Room]:
    """Return those of the node that comes first in `order` with its first `size`, or has most where none has enough."""
    nodes = by_node(able)
    enough = {node: found for node, found in nodes.items() if len(found) >= size}
    if not enough:
        return max(nodes.values(), key=len, default=[])
    return enough[min(enough, key=lambda node: (sum(order(room)[0] for room in enough[node][:size]), node))]


def by_node(rooms: Iterable[Room]) -> dict[str, list[Room]]:
    """Return the rooms of each node, in the order given."""
    found: dict[str, list[Room]] = {}
    for room in rooms:
        found.setdefault(room.node, []).append(room)
    return found


def _emptiness(room: Room) -> tuple[float, str]:
    """Return the sort key of spreading: most free first; ties by UUID."""
    return -_fullness(room)[0], room.uuid


def _nearest(able: Sequence[Room], size: int, distances: Mapping[tuple[str, str], int]) -> tuple[Room, ...]:
    """Return the `size` of `able` that are least far apart in sum; of several such, the first in the order given.

    Every choice is looked at: of 16 devices, the most a claim can span, there are at most 12,870.
    """

    def apart(chosen: Sequence[Room]) -> int:
        pairs = ((one.uuid, other.uuid) for one, other in combinations(chosen, 2))
        return sum(distances.get(pair, distances.get(pair[::-1], 0)) for pair in pairs)

    return min(combinations(able, size), key=apart)


def largest_room(rooms: Sequence[Room]) -> Room | None:
    """Return the device with the largest free slice, `None` when nothing at all is free."""
    free = [room for room in rooms if room.is_usable and room.free_bytes >= MIB and room.free_share_ppm > 0]
    if not free:
        return None
    return min(free, key=lambda room: (-min(room.free_bytes / room.total_bytes, room.free_share_ppm / PPM), room.uuid))


def _of_which(rooms: Sequence[Room]) -> str:
    return " of one node" if len({room.node for room in rooms}) > 1 else ""


def _time(share_ppm: int) -> str:
    return "all of the time" if share_ppm == PPM else f"{format_ppm(share_ppm)} of the time"


def _refusal(rooms: Sequence[Room], profile: Profile, found: int) -> str:
    asked = f"{profile.name!r} does not fit"
    if rooms:
        example = grant_on(rooms[0], profile)
        asked += f" ({format_bytes(example.memory_bytes)} and {_time(example.share_ppm)} of "
        asked += (
            "one device)"
            if profile.devices == 1
            else f"each of {profile.devices} devices{_of_which(rooms)}; {found} have room)"
        )
    largest = largest_room(rooms)
    if largest is None:
        return f"{asked}: no part of any device is free"
    whole = sum(room.is_empty for room in rooms)
    return (
        f"{asked}: the largest free slice is {format_bytes(largest.free_bytes // MIB * MIB)} with "
        f"{_time(largest.free_share_ppm)}, on {largest.uuid} ({largest.name}); "
        f"{whole} of {len(rooms)} devices are wholly free"
    )
