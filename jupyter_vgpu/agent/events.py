"""What the agent noticed: kept for those whom it concerns, logged once a minute per offender."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, get_args

log = logging.getLogger(__name__)

# bypass: a process of a slice uses the device without the library. stranger: one of no slice does. usage: a usage page
# contradicts NVML. meter: metered GPU time does. excess: a slice has more memory than it may. kill: a process was ended
# by policy.
Kind = Literal["bypass", "stranger", "usage", "meter", "excess", "kill"]
KINDS: tuple[Kind, ...] = get_args(Kind)

QUIET_SECONDS = 60.0
_MOST_KEPT = 100
_MOST_OFFENDERS = 4096


@dataclass(frozen=True)
class Event:
    """One thing noticed.

    Attributes:
        at: Unix seconds.
        kind: See `Kind`.
        message: One sentence.
        claim_id: The claim it concerns; `None` = none.
        pid: The process it is about; `None` = no single one.
    """

    at: float
    kind: Kind
    message: str
    claim_id: str | None = None
    pid: int | None = None


class Throttle:
    """Lets one thing per offender through in a minute, however many there are."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._last: dict[Hashable, float] = {}
        self._silenced: Counter[Hashable] = Counter()

    def passes(self, offender: Hashable) -> int | None:
        """Return how many were held back since the last that passed; `None` when this one is held back too."""
        now = time.monotonic()
        if now - self._last.get(offender, -QUIET_SECONDS) < QUIET_SECONDS:
            self._silenced[offender] += 1
            return None
        if len(self._last) >= _MOST_OFFENDERS:
            self._last.clear()
            self._silenced.clear()
        self._last[offender] = now
        return self._silenced.pop(offender, 0)


class EventLog:
    """The last hundred events of each claim, and of nobody's, and how many of each kind there ever were."""

    def __init__(self) -> None:
        """Start empty."""
        self.counts: Counter[Kind] = Counter()
        self._kept: dict[str | None, deque[Event]] = {}
        self._counts: dict[str, Counter[Kind]] = {}
        self._throttle = Throttle()

    def add(self, event: Event) -> None:
        """Keep an event and log it, unless the same claim (or nobody) had a line of its kind within the minute."""
        self.counts[event.kind] += 1
        self._kept.setdefault(event.claim_id, deque(maxlen=_MOST_KEPT)).append(event)
        if event.claim_id is not None:
            self._counts.setdefault(event.claim_id, Counter())[event.kind] += 1
        held_back = self._throttle.passes((event.claim_id, event.kind))
        if held_back is not None:
            of_whom = f"claim {event.claim_id}" if event.claim_id else "no claim"
            log.warning("%s: %s: %s (%d earlier ones not logged)", of_whom, event.kind, event.message, held_back)

    def of(self, claim_id: str) -> list[Event]:
        """Return the kept events of one claim, oldest first."""
        return list(self._kept.get(claim_id, ()))

    def counts_of(self, claim_id: str) -> Counter[Kind]:
        """Return how many events of each kind one claim has had."""
        return self._counts.get(claim_id, Counter())

    def all(self) -> list[Event]:
        """Return all kept events, oldest first."""
        return sorted((event for kept in self._kept.values() for event in kept), key=lambda event: event.at)

    def forget(self, claim_id: str) -> None:
        """Let go of a claim's events: it was released."""
        self._kept.pop(claim_id, None)
        self._counts.pop(claim_id, None)
