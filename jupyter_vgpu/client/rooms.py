"""What an agent says of its devices, as placement looks at it."""

from __future__ import annotations

from jupyter_vgpu.client.answers import DeviceInfo
from jupyter_vgpu.placement import Room
from jupyter_vgpu.units import PPM


def room_of(device: DeviceInfo) -> Room:
    """Return what is free on a device."""
    return Room(
        uuid=device["uuid"],
        name=device["name"],
        total_bytes=device["total_bytes"],
        free_bytes=device["free_bytes"],
        free_share_ppm=round(device["free_share"] * PPM),
        is_usable=not device["drained"],
        isolation=frozenset(device["isolation"]),
        node=device.get("node", ""),
    )
