"""Rows about the agent itself: tenants whose agent is killed, and what an agent costs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from fractions import Fraction

from governor.experiment import LEARN_SECONDS, START_SECONDS, Experiment
from governor.peers import Peer
from governor.progress import Progress
from governor.rows import Row, Target
from governor.stage import NATIVE, OURS, Stage
from governor.work import BURN, IDLE, Tenant, capped, equal

KILLS = 20
ROUND_SECONDS = 4.0
LOOK_SECONDS = 0.5
# Until the agent is at its usual work, and until it rests: it watches for some seconds more whether somebody goes on.
BUSY_SETTLE_SECONDS, REST_SECONDS = 0.5, 8.0
CLOSE_POINTS = 3.0


def seconds_off(progress: Progress, since: float, due: float, tolerance: float, limit_seconds: float) -> float:
    """Return how long after `since` a tenant is back at a rate: the start of the first half second that is close.

    Args:
        progress: Of the tenant.
        since: Seconds since the start of the run.
        due: Units per second.
        tolerance: By how much a rate may differ from that and be close.
        limit_seconds: The answer when there is no such half second.
    """
    delay = 0.0
    while delay < limit_seconds:
        if abs(progress.rate(since + delay, since + delay + LOOK_SECONDS) - due) <= tolerance:
            return delay
        delay += LOOK_SECONDS / 10
    return limit_seconds


class AgentKilled(Experiment):
    """Two busy tenants, one with a ceiling of a quarter; their agent is killed and started again, many times."""

    name = "agent killed"
    group = "agent"
    tenants = (*capped(BURN, 25), Tenant(BURN, Fraction(1, 2)))

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        return START_SECONDS + ROUND_SECONDS * (self._kills(stage) + 1)

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows."""
        chance = random.Random(6)
        kills = self._kills(stage)
        seconds = ROUND_SECONDS * (kills + 1)
        came_back: list[float] = []
        with stage.crew(NATIVE, self.tenants[:1]) as native, stage.crew(OURS, self.tenants) as crew:
            native.wait_ready()
            crew.wait_ready()
            crew.run(LEARN_SECONDS)
            solo_ns = native.solo_ns(0)
            begun = crew.begin(seconds)
            for number in range(kills):
                when = begun + ROUND_SECONDS * number + chance.uniform(0.5, 1.0)
                time.sleep(max(0.0, when - time.monotonic()))
                stage.agent.kill()
                time.sleep(chance.uniform(0.0, 0.5))
                stage.agent.start()
                came_back.append(time.monotonic() - begun)
            answers = crew.end_run(seconds)
        stops = [answer.progress.longest_pause(0.0, seconds) for answer in answers]
        one_percent = 1e9 / solo_ns / 100
        limit = ROUND_SECONDS - 1.0
        delays = [
            seconds_off(answers[0].progress, since, 25 * one_percent, CLOSE_POINTS * one_percent, limit)
            for since in came_back
        ]
        mean = answers[0].progress.rate(0.0, seconds) / one_percent
        detail = {"kills": kills, "stops": stops, "mean_percent_at_25": mean}
        return [
            self._stop_row(max(stops), detail=detail),
            self._ceiling_row(max(delays), runs=delays),
        ]

    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised."""
        return [self._stop_row(None, error=why), self._ceiling_row(None, error=why)]

    def _kills(self, stage: Stage) -> int:
        return max(2, round(KILLS * stage.scale))

    def _stop_row(self, ours: float | None, **more: object) -> Row:
        name = "agent killed again and again: longest stop"
        return Row(self.name, name, 2, ours, None, "s", Target("at most", 1.0), **more)  # type: ignore[arg-type]

    def _ceiling_row(self, ours: float | None, **more: object) -> Row:
        name = "agent killed again and again: ceiling holds after"
        return Row(self.name, name, 2, ours, None, "s", Target("at most", 2.0), **more)  # type: ignore[arg-type]


class AgentLoad(Experiment):
    """The processor time of the agent with many tenants."""

    group = "agent"

    def __init__(self, told: str, busy_tenants: int, idle_tenants: int, most_percent: float) -> None:
        """Say with how many tenants of which kind, and how much of a core the agent may take."""
        self.name = f"agent with {told}"
        count = busy_tenants + idle_tenants
        work = BURN if busy_tenants else IDLE
        self._tenants = equal(work, count)
        self._is_busy = busy_tenants > 0
        self._target = Target("at most", most_percent)

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        settle = 0.0 if self._is_busy else REST_SECONDS
        return START_SECONDS + len(self._tenants) * 0.3 + settle + 12.0 * stage.scale

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its row."""
        seconds = 10.0 * stage.scale
        with stage.crew(OURS, self._tenants) as crew:
            crew.wait_ready()
            crew.run(LEARN_SECONDS)
            if self._is_busy:
                crew.begin(seconds + 1.0)
            time.sleep(BUSY_SETTLE_SECONDS if self._is_busy else REST_SECONDS)
            before, begun = stage.agent.cpu_seconds(), time.monotonic()
            time.sleep(seconds)
            percent = 100 * (stage.agent.cpu_seconds() - before) / (time.monotonic() - begun)
            if self._is_busy:
                crew.end_run(seconds + 1.0)
        return [self._row(percent)]

    def failed(self, why: str) -> list[Row]:
        """Return its row for when `measure` raised."""
        return [self._row(None, error=why)]

    def _row(self, ours: float | None, error: str = "") -> Row:
        return Row(self.name, self.name, len(self._tenants), ours, None, "% of a core", self._target, error=error)
