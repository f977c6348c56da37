"""Where claims go, as far as the hub has a say."""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_vgpu.config import Isolated


@dataclass(frozen=True)
class PlacementRules:
    """Where claims go, as far as the hub has a say: who is isolated, and whether slices are spread."""

    isolated: Isolated = field(default_factory=Isolated)
    is_spread: bool = False
