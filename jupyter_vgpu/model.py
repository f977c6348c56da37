"""What the parts of the house talk about: profiles, devices, claims, edits.

Frozen data without any I/O. Sizes are bytes, shares parts per million of one
device's time, times Unix seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.units import MIB, PPM

ClaimState = Literal["pending", "bound", "parked", "released"]
CLAIM_STATES: tuple[ClaimState, ...] = ("pending", "bound", "parked", "released")

Priority = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high")

MAX_DEVICES = 16  # JVGPU_MAX_DEVICES in native/include/jvgpu/pages.h


@dataclass(frozen=True)
class Memory:
    """How much of a device's memory: a fraction of it, or a size. Exactly one of the two is set.

    Attributes:
        fraction: Part of the device's memory, in (0, 1], or `None`.
        size_bytes: Size in bytes, at least 1 MiB, or `None`.
    """

    fraction: Fraction | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse both, neither, and what would be no memory at all."""
        if (self.fraction is None) == (self.size_bytes is None):
            raise BadValueError("memory", (self.fraction, self.size_bytes), "either a fraction or a size is")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise BadValueError("memory", str(self.fraction), "a fraction above 0 and at most 1 is")
        if self.size_bytes is not None and self.size_bytes < MIB:
            raise BadValueError("memory", self.size_bytes, "at least 1MiB (1048576 bytes) is")

    def of(self, total_bytes: int) -> int:
        """Return the size on a device of `total_bytes`, in bytes, rounded down to 1 MiB.

        It may be more than the device has, when a size was asked for: that is for placement to refuse.
        """
        if self.fraction is not None:
            return int(self.fraction * total_bytes) // MIB * MIB
        assert self.size_bytes is not None
        return self.size_bytes // MIB * MIB


@dataclass(frozen=True)
class Profile:
    """A named offer.

    Attributes:
        name: As on the spawn page.
        share_ppm: Promised part of a device's time; 0 means "by memory": memory ÷ device total.
        ceiling_ppm: Most it may use; equal to the share = hard limit, 1,000,000 = soft.
        memory: Memory on each device.
        devices: Number of devices, 1..16; share and memory are meant per device. 0 = a server without a GPU, which
            holds no slice.
        backend: `"auto"`, `"intercept"` or `"whole"`.
        description: One sentence for the spawn page; may be empty.
        is_default: Whether the spawn page starts with it.
        priority: One of `PRIORITIES`; who waits with a higher one goes first.
        max_hours: Longest time a server may hold it, in hours, > 0; `None` = not limited.
        allowed_groups: Groups of the hub whose members may use it; `None` = everyone.
        order: Place on the spawn page, smallest first; those alike in the order they were written in.
        guarantee_ppm: Least part of a device's time that it gets in each second in which it wants that much, at most
            the share, counted when it is missed; 0 = none is guaranteed.
    """

    name: str
    share_ppm: int
    ceiling_ppm: int
    memory: Memory
    devices: int = 1
    backend: str = "auto"
    description: str = ""
    is_default: bool = False
    priority: Priority = "normal"
    max_hours: float | None = None
    allowed_groups: tuple[str, ...] | None = None
    order: int = 0
    guarantee_ppm: int = 0

    def share_on(self, total_bytes: int) -> int:
        """Return the share on a device of `total_bytes`, in parts per million, 1..1,000,000.

        By memory, it is what the memory is of the device, rounded down, never 0 and never above the whole.
        """
        if self.share_ppm:
            return self.share_ppm
        return max(1, min(PPM, self.memory.of(total_bytes) * PPM // total_bytes))


@dataclass(frozen=True)
class Device:
    """A physical GPU.

    Attributes:
        uuid: NVML's, `"GPU-…"`; the key everywhere.
        name: The maker's name of the board.
        index: NVML's index on this node; for people only, it may change at a reboot.
        total_bytes: Device memory.
        sm_count: Streaming multiprocessors; 0 when NVML does not say.
        compute_capability: `"9.0"`; `""` when NVML does not say.
        is_simulated: Whether it is a board of the simulated driver.
        driver_version: As NVML gives it.
    """

    uuid: str
    name: str
    index: int
    total_bytes: int
    sm_count: int
    compute_capability: str
    is_simulated: bool
    driver_version: str


@dataclass(frozen=True)
class Grant:
    """One device's part of a claim.

    Attributes:
        uuid: The device.
        memory_bytes: Most memory there.
        share_ppm: Promised part of its time.
        ceiling_ppm: Most of its time.
        isolation: Isolation group: the device is shared with grants of the same one only; `""` = of those without one.
        guarantee_ppm: Least of its time, as in `Profile`; at most the share.
    """

    uuid: str
    memory_bytes: int
    share_ppm: int
    ceiling_ppm: int
    isolation: str = ""
    guarantee_ppm: int = 0


@dataclass(frozen=True)
class ClaimRequest:
    """What a hub, or `jupyter vgpu run`, asks an agent for.

    Attributes:
        tenant: Who is isolated and billed: a Hub user or one named server of theirs.
        hub: Name of the hub that asks.
        uid: Host user that the tenant's processes run as.
        profile: What they get.
        backend: How it is to be enforced; `"auto"` leaves it to the agent.
        isolation: It shares devices with claims of this hub that say the same only; empty = with all that say nothing.
        is_spread: Whether it goes on the emptiest devices instead of the fullest that have room.
    """

    tenant: str
    hub: str
    uid: int
    profile: Profile
    backend: str = "auto"
    isolation: str = ""
    is_spread: bool = False


@dataclass(frozen=True)
class Claim:
    """A tenant's hold on a slice, as the agent keeps it.

    Attributes:
        claim_id: Given by the agent.
        tenant: As in the request.
        hub: As in the request.
        uid: As in the request.
        profile_name: Name of the profile it was made from.
        backend: How it is enforced; never `"auto"`.
        grants: One per device, in the claim's own order, the same as in the pages.
        state: One of `CLAIM_STATES`.
        created_at: Unix seconds.
        secret_sha256: Hex digest of the claim secret; the secret itself is kept nowhere.
        part_of: Id of the claim whose slice this one has a part of; empty for a slice of its own.
        priority: The profile's: whose work goes first where several tenants want one device.
    """

    claim_id: str
    tenant: str
    hub: str
    uid: int
    profile_name: str
    backend: str
    grants: tuple[Grant, ...]
    state: ClaimState
    created_at: float
    secret_sha256: str
    part_of: str = ""
    priority: Priority = "normal"


@dataclass(frozen=True)
class Edits:
    """What an injector does to the tenant's processes; the shape of CDI container edits.

    Attributes:
        env: Variables to set.
        preload: Libraries to merge into `LD_PRELOAD`, ours first.
        library_path: Folders to put before what `LD_LIBRARY_PATH` has.
        mounts: Paths of the host that must be visible inside.
        devices: Device nodes that must be usable inside.
    """

    env: dict[str, str] = field(default_factory=dict)
    preload: list[str] = field(default_factory=list)
    library_path: list[str] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)

    def applied_to(self, environment: dict[str, str]) -> dict[str, str]:
        """Return `environment` with these edits, merged with the preloads and paths it has.

        Applying twice is applying once. Mounts and devices are the platform's to apply.
        """
        merged = {**environment, **self.env}
        # The loader takes spaces and colons in LD_PRELOAD. source: ld.so(8)
        for variable, parts, separators in (
            ("LD_PRELOAD", self.preload, r"[ :]"),
            ("LD_LIBRARY_PATH", self.library_path, r"[:;]"),
        ):
            if parts:
                there = re.split(separators, environment.get(variable, ""))
                merged[variable] = ":".join([*parts, *(part for part in there if part and part not in parts)])
        return merged
