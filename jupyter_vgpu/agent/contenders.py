"""How many processes use a device at the same time: what a tenant's meter needs to know of its neighbours.

Pure: whoever counts passes the figures and the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

LATELY_SECONDS = 1.0

# A process's place on one device: the device's UUID, and whatever names the process for as long as it is attached.
Place = tuple[str, Hashable]


class Contenders:
    """Counts, per device, the processes of all tenants that launched there lately."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._seen: dict[Place, tuple[int, float]] = {}

    def count(self, launches: Mapping[Place, int], now: float) -> Counter[str]:
        """Return by UUID how many processes launched within the last second; 0 for a device of none.

        Args:
            launches: The launches so far of every attached process; one that is missing has gone.
            now: Monotonic seconds.
        """
        counts: Counter[str] = Counter()
        seen: dict[Place, tuple[int, float]] = {}
        for place, figure in launches.items():
            before, launched_at = self._seen.get(place, (0, float("-inf")))
            if figure > before:
                launched_at = now
            seen[place] = (figure, launched_at)
            if now - launched_at < LATELY_SECONDS:
                counts[place[0]] += 1
        self._seen = seen
        return counts
