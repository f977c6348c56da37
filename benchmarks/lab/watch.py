"""Asks the agent again and again who holds what, and holds it against the cards and the rules. Trusts no hub."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from jupyter_vgpu.errors import VGPUError

_PAUSE_SECONDS = 0.1
_SLACK_SECONDS = 5.0  # between what the agent knows and what the ledger does, on a machine that is busy


@dataclass(frozen=True)
class Rules:
    """What the lab's quotas allow; see hub_config.py.

    Attributes:
        slices_each: Slices at once for each user.
        seminar: Members of the group that has a quota together.
        seminar_slices: Slices at once for them together.
        greedy: Members of the group that has GPU-hours.
        greedy_hours: What each of them may have had when a new claim is made.
    """

    slices_each: int
    seminar: frozenset[str]
    seminar_slices: int
    greedy: frozenset[str]
    greedy_hours: float


class Watch(threading.Thread):
    """What was seen of the claims.

    Attributes:
        looks: How often it looked.
        over_committed: Looks at which a device had promised more memory or time than it has.
        broken: Looks at which more was held than the rules allow, and claims made that they forbid; each in words.
        most: Most slices at once.
    """

    def __init__(self, agent: Any, rules: Rules) -> None:
        """Watch `agent` until `ended` is set."""
        super().__init__(daemon=True)
        self.agent = agent
        self.rules = rules
        self.ended = threading.Event()
        self.looks = self.unanswered = self.over_committed = self.most = self.now_held = 0
        self.broken: Counter[str] = Counter()
        self.trouble: BaseException | None = None
        self._totals = {device["uuid"]: device["total_bytes"] for device in agent.hub.devices()}
        self._used_seconds: Counter[str] = Counter()
        self._seen: dict[str, tuple[str, float, float]] = {}
        self.pauses: deque[float] = deque(maxlen=100_000)

    def run(self) -> None:
        """Look ten times a second."""
        try:
            before = time.monotonic()
            while not self.ended.wait(_PAUSE_SECONDS):
                try:
                    self.look(self.agent.claims(), time.time())
                except VGPUError:
                    self.unanswered += 1
                now = time.monotonic()
                self.pauses.append(now - before)
                before = now
        except BaseException as error:
            self.trouble = error
            raise

    def look(self, claims: list[Any], now: float) -> None:
        """Judge what is held at one moment."""
        memory_bytes: Counter[str] = Counter()
        share_ppm: Counter[str] = Counter()
        for claim in claims:
            for part in claim["devices"]:
                memory_bytes[part["uuid"]] += part["memory_bytes"]
                share_ppm[part["uuid"]] += round(part["share"] * 1e6)
        self.looks += 1
        self.now_held = len(claims)
        self.most = max(self.most, len(claims))
        self.over_committed += any(memory_bytes[u] > total or share_ppm[u] > 1e6 for u, total in self._totals.items())
        held = Counter(claim["tenant"].partition("/")[0] for claim in claims)
        if any(count > self.rules.slices_each for count in held.values()):
            self.broken["a user held too many slices"] += 1
        if sum(held[user] for user in self.rules.seminar) > self.rules.seminar_slices:
            self.broken["a group held too many slices together"] += 1
        self._count_hours(claims, now)

    def _count_hours(self, claims: list[Any], now: float) -> None:
        here = {claim["claim"]: claim for claim in claims}
        for claim_id in [claim_id for claim_id in self._seen if claim_id not in here]:
            user, share, since = self._seen.pop(claim_id)
            # It may have gone just after it was last seen: less is counted, never more.
            self._used_seconds[user] += share * max(0.0, now - since - _SLACK_SECONDS)
        for claim_id, claim in here.items():
            user = claim["tenant"].partition("/")[0]
            if claim_id not in self._seen:
                if user in self.rules.greedy and self._used_seconds[user] >= self.rules.greedy_hours * 3600:
                    self.broken["a claim was made though the GPU-hours were used up"] += 1
                share = sum(part["share"] for part in claim["devices"])
                self._seen[claim_id] = user, share, claim["created_at"]
