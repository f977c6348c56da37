"""NVML against the ledger: what a tenant's processes have of a device, and what they are charged.

Overhead (overhead.py) already charges what NVML sees beyond the granted, once it is believed. What is left is drift:
positive where something is not charged yet, negative where something is charged that NVML does not see (managed memory
that is not on the device, pools that were trimmed behind our back). Four looks a second, none of which proves
anything, since page and NVML are not read in the same instant. Pure.
"""

from __future__ import annotations

from collections import deque

from jupyter_vgpu.units import format_bytes

# A second at four looks a second.
LOOKS = 4
# Over the limit for so many looks in a row: two seconds, in which overhead is believed and allocations are refused.
EXCESS_LOOKS = 8
# What a figure inside may differ from NVML's (DESIGN.md, CASES 17).
TOLERANCE_BYTES = 64 << 20
TOLERANCE_PART = 0.02


def tolerance_bytes(figure_bytes: int) -> int:
    """Return by how much two figures of one amount may differ: 64 MiB, or two per cent."""
    return max(TOLERANCE_BYTES, int(figure_bytes * TOLERANCE_PART))


class Reconciliation:
    """One claim on one device, followed from look to look."""

    def __init__(self) -> None:
        """Start without a past."""
        self._differences: deque[int] = deque(maxlen=LOOKS)
        self._excess_looks = 0

    @property
    def drift_bytes(self) -> int:
        """What NVML saw beyond what was charged, at least, in every look of the last second; 0 where looks disagree."""
        if len(self._differences) < LOOKS:
            return 0
        least, most = min(self._differences), max(self._differences)
        return least if least > 0 else min(0, most)

    def look(self, seen_bytes: int | None, charged_bytes: int, limit_bytes: int) -> str | None:
        """Take in one look; return in words how far the limit is passed, at the look that makes it certain.

        Args:
            seen_bytes: What NVML says all processes of the claim have together; `None` = it does not say of one.
            charged_bytes: What they are charged together, overhead included.
            limit_bytes: What they may have.
        """
        if seen_bytes is None:
            self._differences.clear()
            self._excess_looks = 0
            return None
        self._differences.append(seen_bytes - charged_bytes)
        is_over = seen_bytes > limit_bytes + tolerance_bytes(limit_bytes)
        self._excess_looks = self._excess_looks + 1 if is_over else 0
        if self._excess_looks != EXCESS_LOOKS:
            return None
        return f"its processes have {format_bytes(seen_bytes)}, and may have {format_bytes(limit_bytes)}"
