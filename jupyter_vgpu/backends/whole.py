"""A device of one's own: nothing to enforce inside it, nobody beside it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from jupyter_vgpu.backends.base import Enforcement, Node
from jupyter_vgpu.backends.intercept import has_mapped, preload_edits
from jupyter_vgpu.model import Claim, Edits, Memory, Profile
from jupyter_vgpu.native import INTERCEPT_LIBRARY
from jupyter_vgpu.units import PPM


class WholeBackend:
    """Whole devices. The library hides the node's other devices and counts use; it limits nothing inside."""

    name: ClassVar[str] = "whole"
    level: ClassVar[str] = "whole device"
    requirement: ClassVar[str] = "whole takes share 1 and all of the memory"

    def supports(self, profile: Profile) -> bool:
        """Return whether the profile asks for all of its devices."""
        return profile.share_ppm == PPM and profile.memory == Memory(fraction=Fraction(1))

    def prepare(self, claim: Claim, secret: str, node: Node) -> Edits:
        """Return the preload and the way to the agent."""
        return preload_edits(secret, node)

    def release(self, claim: Claim) -> None:
        """Nothing was made."""

    def observe(self, claim: Claim, pids: Sequence[int]) -> Enforcement:
        """Return whether the attached processes see this claim's devices only."""
        if not pids:
            return Enforcement(self.level, False, "no process of this slice uses the GPU now")
        if not all(has_mapped(pid, INTERCEPT_LIBRARY) for pid in pids):
            return Enforcement(self.level, False, "a process without the library sees the node's other devices too")
        return Enforcement(self.level, True, "no other claim has any part of these devices")
