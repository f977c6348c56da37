"""Which devices are kept for who has waited too long for a slice that does not fit.

Pure functions. Kept are the emptiest devices that could hold the slice, so that the fewest have to leave first. The
hub cannot tell the agent where to put a claim; it can foresee where it will, and does not ask for one that would land
on what is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.model import Profile
from jupyter_vgpu.placement import Room, best_fit, by_node, fits
from jupyter_vgpu.units import PPM


def kept_for(profile: Profile, rooms: Sequence[Room], isolation: str = "") -> frozenset[str]:
    """Return the devices that are kept for a slice of `profile`; none where it would not fit, however empty they were.

    While they are kept, nobody comes and some go, so that the emptiest stays the emptiest or is surpassed by one that
    is emptier still: who waits comes nearer to their slice at every look.

    Args:
        profile: What is waited for.
        rooms: Free room per device, any order.
        isolation: The isolation group of who waits, as for `placement.fits`.
    """
    able = [room for room in rooms if fits(_emptied(room), profile, isolation)]
    able.sort(key=lambda room: (-_emptiness(room), room.uuid))
    enough = [found[: profile.devices] for found in by_node(able).values() if len(found) >= profile.devices]
    first = max(enough, key=lambda found: sum(map(_emptiness, found)), default=[])
    return frozenset(room.uuid for room in first)


def _emptiness(room: Room) -> float:
    return room.free_bytes / room.total_bytes + room.free_share_ppm / PPM


def _emptied(room: Room) -> Room:
    return replace(room, free_bytes=room.total_bytes, free_share_ppm=PPM, isolation=frozenset())


def leaves(
    profile: Profile, rooms: Sequence[Room], kept: Collection[str], isolation: str = "", spread: bool = False
) -> bool:
    """Return whether the agent would put a slice of `profile` on devices that are not `kept`.

    Args:
        profile: What is asked for.
        rooms: Free room per device, any order.
        kept: UUIDs, as `kept_for` gives them.
        isolation: The isolation group of who asks.
        spread: Whether the agent is asked to spread.
    """
    try:
        return not any(grant.uuid in kept for grant in best_fit(rooms, profile, isolation, spread))
    except VGPUError:
        return False
