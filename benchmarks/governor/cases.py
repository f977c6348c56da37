"""Rows about what one tenant does to the other: launches of two seconds (CASES 39), an illegal access (CASES 40)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from bench.processes import WorkerError

from governor.experiment import LEARN_SECONDS, START_SECONDS, Experiment
from governor.fairness import parts
from governor.peers import Peer
from governor.progress import Progress, delay_until
from governor.rows import Row, Target
from governor.stage import ANSWER_SECONDS, NATIVE, OURS, Crew, Stage
from governor.work import BURN, FAULT, Tenant, busy

HALF = Fraction(1, 2)
LONG_SECONDS = 2.0
HOLD_SECONDS = 0.1
MOST_PAUSE_SECONDS = 0.05
BACK_LEVEL = 0.95


def unit_seconds(progress: Progress) -> float:
    """Return how long a unit takes of who works alone: the least time between two that were finished.

    Raises:
        WorkerError: Fewer than two were.
    """
    times = [time for time, _ in progress.points()]
    if len(times) < 2:
        raise WorkerError("alone, fewer than two launches were finished: there is no length to compare with")
    return min(later - earlier for earlier, later in pairwise(times))


class LongLaunches(Experiment):
    """A tenant whose launches take two seconds, beside one that is always busy."""

    name = "2 s launches"
    group = "cases"
    tenants = (Tenant(BURN, HALF), Tenant(busy(LONG_SECONDS * 1e6), HALF))

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        # What is under way at a run's end is waited for, and takes twice as long beside the other.
        return 2 * START_SECONDS + 3 * self._seconds(stage) + 20 * LONG_SECONDS

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows."""
        seconds = self._seconds(stage)
        with stage.crew(NATIVE, self.tenants) as native, stage.crew(OURS, self.tenants) as crew:
            native.wait_ready()
            crew.wait_ready()
            # The first launch is charged when it is sampled, which the second run sees done.
            for _ in range(2):
                crew.run(LEARN_SECONDS)
            # Until then launches are charged by a guess, up to twice their time, and no claim's figure passes its age:
            # that has to be let go by, or what was not told before is told as this run's.
            time.sleep(4 * LONG_SECONDS)
            (alone,) = native.run(2.5 * LONG_SECONDS, only=[1])
            solo = [native.solo_ns(0) * 1e-9, unit_seconds(alone.progress)]
            before = _usages(stage, crew)
            answers = crew.run(seconds)
            after = _usages(stage, crew)
            native_answers = native.run(seconds)
        had = [answer.progress.rate(0, seconds) * one for answer, one in zip(answers, solo, strict=True)]
        native_had = [answer.progress.rate(0, seconds) * one for answer, one in zip(native_answers, solo, strict=True)]
        done = [answer.units * one for answer, one in zip(answers, solo, strict=True)]
        grown = [{key: late[key] - early[key] for key in early} for early, late in zip(before, after, strict=True)]
        kept_waiting = answers[0].seconds - done[0]
        detail: dict[str, Any] = {
            "seconds": seconds,
            "solo_seconds": solo,
            "units": [answer.units for answer in answers],
        }
        detail |= {"had": had, "native_had": native_had, "usage": grown}
        return [
            self._part(100 * parts(had)[0], 100 * parts(native_had)[0], detail=detail),
            self._charged(grown[1]["gpu_time_seconds"] / done[1] if done[1] else None),
            self._waited(grown[0]["waited_seconds"] / kept_waiting if kept_waiting > 0 else None),
        ]

    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised."""
        return [row(None, error=why) for row in (self._part, self._charged, self._waited)]

    def _seconds(self, stage: Stage) -> float:
        return max(20.0 * stage.scale, 2 * LONG_SECONDS)

    def _part(self, ours: float | None, native: float | None = None, **more: Any) -> Row:
        name = "beside 2 s launches: the part of 20 us ones"
        return Row(self.name, name, 2, ours, native, "% of what was had", Target("within", 50, 3), **more)

    def _charged(self, ours: float | None, **more: Any) -> Row:
        name = "2 s launches: charged to their owner"
        return Row(self.name, name, 2, ours, None, "of their time", Target("within", 1, 0.05), **more)

    def _waited(self, ours: float | None, **more: Any) -> Row:
        name = "beside 2 s launches: waiting that is recorded"
        return Row(self.name, name, 2, ours, None, "of what there was", Target("within", 1, 0.1), **more)


def _usages(stage: Stage, crew: Crew) -> list[dict[str, float]]:
    figures = ("gpu_time_seconds", "waited_seconds", "launches")
    devices = [stage.agent.hub.usage(claim)["devices"][0] for claim in crew.claims]
    return [{figure: float(device[figure]) for figure in figures} for device in devices]  # type: ignore[literal-required]


class IllegalAccess(Experiment):
    """Two that are always busy; half-way through, one stores where it may not, which ends its process."""

    name = "illegal access"
    group = "cases"
    tenants = (Tenant(BURN, HALF), Tenant(FAULT, HALF))

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        return 3 * START_SECONDS + 2 * (LEARN_SECONDS + self._seconds(stage))

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows."""
        with stage.crew(NATIVE, self.tenants[:1]) as alone:
            alone.wait_ready()
            level = BACK_LEVEL * 1e9 / alone.solo_ns(0)
        native_pause, native_back = self._run(stage, NATIVE, level)
        pause, back = self._run(stage, OURS, level)
        return [self._pause(pause, native_pause), self._back(back, native_back)]

    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised."""
        return [row(None, None, error=why) for row in (self._pause, self._back)]

    def _seconds(self, stage: Stage) -> float:
        return max(4.0 * stage.scale, 1.0)

    def _run(self, stage: Stage, arm: str, level: float) -> tuple[float, float]:
        """Return the longest pause of who goes on, from the fault on, and when it works at `level` units a second."""
        seconds = self._seconds(stage)
        with stage.crew(arm, self.tenants) as crew:
            crew.wait_ready()
            crew.run(LEARN_SECONDS, only=[0])
            crew.begin(seconds)
            fault = float(crew.workers[1][0].hear_json(seconds + ANSWER_SECONDS)["fault_at"])
            (answer,) = crew.end_run(seconds, only=[0])
        limit = max(seconds - fault - HOLD_SECONDS, 0.0)
        back = delay_until(answer.progress, fault, level, HOLD_SECONDS, limit)
        return answer.progress.longest_pause(fault, seconds), back

    def _pause(self, ours: float | None, native: float | None, **more: Any) -> Row:
        name = "a neighbour's illegal access: longest stop"
        return Row(self.name, name, 2, ours, native, "s", Target("at most", MOST_PAUSE_SECONDS), **more)

    def _back(self, ours: float | None, native: float | None, **more: Any) -> Row:
        name = "a neighbour's illegal access: has it all after"
        return Row(self.name, name, 2, ours, native, "s", Target("at most", 0.1), **more)
