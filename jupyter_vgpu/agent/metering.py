"""Whose meter is too slow: metered GPU time against what the device says of itself. Pure.

No figure of NVML's is enough by itself. A device's own activity is right, but says nothing of who it was; a
process's part lags and has been seen wrong by a factor of two (99 and 97 % for two that had 48 % each; 55 and 34 %
for two that had half each). So: first all tenants' meters together must fall short of the device, for several looks;
then one tenant must stand out, when NVML's parts are scaled to what the device did, as the one whose meter says too
little; and the shortfall must be its. Where nobody stands out, nobody is accused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_vgpu.nvml import DeviceUse

# Meters together below this part of the device's active time are short. Two always-busy tenants have 0.905 of it: the
# rest is the driver's switching. source: measured, H200.
SHORT_OF_ACTIVE = 0.8
# SMs that had work are never more than the time in which anything ran: less than that leaves no doubt, as gaps between
# launches are no work of an SM.
SHORT_OF_SM_BUSY = 0.9
# Below this the device did too little to tell.
LEAST_ACTIVE = 0.2
# A tenant stands out when its scaled part is so many times its meter's ...
LEAST_RATIO = 1.3
# ... and that is so many times more than for the next one: an honest tenant beside one that halves its use stays
# unaccused as long as NVML favours the other less than 2.8 times.
LEAST_LEAD = 1.4
# It must explain this part of the shortfall.
LEAST_EXPLAINED = 0.5

LEAST_LAUNCHES_PER_SECOND = 100

SHORT_LOOKS = 3
SAME_LOOKS = 2
WINDOW_LOOKS = 4  # a second: metered GPU time is of the last second too


@dataclass(frozen=True)
class Metered:
    """What is known of one tenant's use of one device over the last second.

    Attributes:
        claim_id: The tenant's claim.
        fraction: Metered GPU time, 0..1.
        nvml: NVML's part for its processes together, 0..1; `None` = not asked, or it does not say.
        launches_per_second: What its page says, for that part of the second in which it was least.
        has_launched: Whether its page says that it ever launched.
    """

    claim_id: str
    fraction: float
    nvml: float | None = None
    launches_per_second: float = 1000.0
    has_launched: bool = True

    @property
    def is_accountable(self) -> bool:
        """Whether its meter has to be right within a second.

        Launches that may last 10 ms and more cannot be metered before some have ended: of those NVML is believed. Who
        says that it never launched has no such excuse.
        """
        return self.launches_per_second >= LEAST_LAUNCHES_PER_SECOND or not self.has_launched


def is_short(metered: Sequence[Metered], use: DeviceUse) -> bool:
    """Return whether the meters together say too little for what the device did."""
    total = sum(each.fraction for each in metered)
    if use.active < LEAST_ACTIVE or total >= SHORT_OF_ACTIVE * use.active:
        return False
    return use.sm_busy is None or total < SHORT_OF_SM_BUSY * use.sm_busy


def slow_meter(metered: Sequence[Metered], use: DeviceUse) -> str | None:
    """Return the claim whose meter says too little; `None` = all are right, or nobody stands out.

    Args:
        metered: All tenants with processes on the device.
        use: What the device did meanwhile.
    """
    if not metered or not is_short(metered, use):
        return None
    if len(metered) == 1:
        return metered[0].claim_id if metered[0].is_accountable else None
    if any(each.nvml is None for each in metered):
        return None
    parts = [each.nvml or 0.0 for each in metered]
    # What the parts are together, the device knows better.
    scale = use.active / sum(parts) if sum(parts) > 0 else 0.0
    scaled = [part * scale for part in parts]
    believed = [
        each if each.is_accountable else replace(each, fraction=max(each.fraction, part))
        for each, part in zip(metered, scaled, strict=True)
    ]
    if not is_short(believed, use):
        return None
    # A hundredth, so that nothing at all can be compared, and noise is not.
    ratios = [(part + 0.01) / (each.fraction + 0.01) for part, each in zip(scaled, believed, strict=True)]
    first, second = sorted(range(len(believed)), key=lambda place: ratios[place], reverse=True)[:2]
    stands_out = ratios[first] >= LEAST_RATIO and ratios[first] >= LEAST_LEAD * max(1.0, ratios[second])
    shortfall = use.active - sum(each.fraction for each in believed)
    explained = scaled[first] - believed[first].fraction
    is_the_one = stands_out and explained >= LEAST_EXPLAINED * shortfall and believed[first].is_accountable
    return believed[first].claim_id if is_the_one else None


class MeterWatch:
    """One device, followed from look to look."""

    def __init__(self) -> None:
        """Start without a past."""
        self._uses: deque[DeviceUse] = deque(maxlen=WINDOW_LOOKS)
        self._short_looks = 0
        self._accused: str | None = None
        self._accused_looks = 0
        self._told: str | None = None
        self._claim_ids: frozenset[str] = frozenset()
        self._looks_left_out = 0

    @property
    def is_suspicious(self) -> bool:
        """Whether NVML's part for each process is wanted at the next look."""
        return self._short_looks > 0

    @property
    def mean(self) -> DeviceUse:
        """What the device did over the last second; there has been a look."""
        sm_busy = [use.sm_busy for use in self._uses if use.sm_busy is not None]
        active = sum(use.active for use in self._uses) / len(self._uses)
        return DeviceUse(active, sum(sm_busy) / len(sm_busy) if sm_busy else None)

    def skip(self) -> None:
        """Take in a look that tells nothing: someone was on the device whom nobody meters (any more).

        NVML's figure may be of the last second, so the next looks are left out as well.
        """
        self._uses.clear()
        self._short_looks = self._accused_looks = 0
        self._looks_left_out = WINDOW_LOOKS

    def look(self, metered: Sequence[Metered], use: DeviceUse) -> str | None:
        """Return the claim whose meter is too slow, once, at the look that makes it certain; `None` otherwise.

        It is said again only after all meters have been right, or another's has been wrong, in between.
        """
        gone = self._claim_ids - {each.claim_id for each in metered}
        self._claim_ids = frozenset(each.claim_id for each in metered)
        if gone:
            self.skip()
        if self._looks_left_out > 0:
            self._looks_left_out -= 1
            return None
        self._uses.append(use)
        if len(self._uses) < WINDOW_LOOKS:
            return None
        if not is_short(metered, self.mean):
            self._short_looks = self._accused_looks = 0
            self._accused = self._told = None
            return None
        self._short_looks += 1
        claim_id = slow_meter(metered, self.mean)
        self._accused_looks = self._accused_looks + 1 if claim_id == self._accused else 1
        self._accused = claim_id
        is_certain = self._accused_looks >= SAME_LOOKS and self._short_looks >= SHORT_LOOKS
        if claim_id is None or not is_certain or claim_id == self._told:
            return None
        self._told = claim_id
        return claim_id
