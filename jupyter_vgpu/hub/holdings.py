"""What is claimed, and what the ledger remembers, as quotas count it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jupyter_vgpu.client import DeviceInfo
from jupyter_vgpu.ledger import Entry
from jupyter_vgpu.model import PRIORITIES, Profile
from jupyter_vgpu.quota import Holding, Use, Wish, guarantee_of
from jupyter_vgpu.units import PPM


def asked_for(profile: Profile, devices: Sequence[DeviceInfo]) -> list[dict[str, Any]]:
    """Return memory, share and guarantee that `profile` asks for, as the ledger keeps them, one per device.

    Where the node's devices differ, each is counted as the one on which it is most.

    Args:
        profile: What is asked for.
        devices: The node's devices.
    """
    memory_bytes = share_ppm = 0
    for total_bytes in {device["total_bytes"] for device in devices}:
        memory_bytes = max(memory_bytes, min(profile.memory.of(total_bytes), total_bytes))
        share_ppm = max(share_ppm, profile.share_on(total_bytes))
    guaranteed = {"guarantee": profile.guarantee_ppm / PPM} if profile.guarantee_ppm else {}
    return [{"memory_bytes": memory_bytes, "share": share_ppm / PPM, **guaranteed}] * profile.devices


def wish_of(asked: Sequence[Mapping[str, Any]], profile: Profile) -> Wish:
    """Return what `asked_for` found, as quotas count it."""
    memory_bytes, share = _sums(asked)
    return Wish(memory_bytes, share, PRIORITIES.index(profile.priority))


def holding_of(entry: Entry) -> Holding:
    """Return a claim of the ledger, as quotas count it: from when it was asked for, since its room is taken then."""
    memory_bytes, share = _sums(entry.devices)
    started_at = (entry.bound_at or entry.requested_at).timestamp()
    ended_at = entry.released_at.timestamp() if entry.released_at is not None else None
    guaranteed_ppm = sum(round(float(device.get("guarantee", 0)) * PPM) for device in entry.devices)
    return Holding(memory_bytes, share, started_at, ended_at, guaranteed_ppm)


def guaranteed(profile: Profile, devices: Sequence[DeviceInfo], uses: Iterable[Use]) -> Profile:
    """Return `profile` with what a user's quotas guarantee of it, or what it guarantees by itself if that is more.

    Where the devices differ, by what is its share on each of them.

    Args:
        profile: What is asked for.
        devices: The devices that there are.
        uses: The quotas that count for the user.
    """
    share_ppm = min((profile.share_on(device["total_bytes"]) for device in devices), default=0)
    given_ppm = guarantee_of(share_ppm, profile.devices, uses) if profile.devices else 0
    return replace(profile, guarantee_ppm=given_ppm) if given_ppm > profile.guarantee_ppm else profile


def _sums(devices: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    return sum(int(device["memory_bytes"]) for device in devices), sum(float(device["share"]) for device in devices)
