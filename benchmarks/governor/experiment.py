"""Experiments: what is run, and which rows of the table come of it."""

from __future__ import annotations

import math
import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from bench.processes import WorkerError

from governor.figures import Run
from governor.peers import Peer
from governor.rows import Row, Target
from governor.stage import NATIVE, OURS, Answer, Crew, Stage
from governor.work import Tenant

LEARN_SECONDS = 1.0
ALONE_SECONDS = 3.0
MOST_PEER_SECONDS = 5.0  # one run of each peer, not three: device time is dear
NOTHING_SEEN = "the runs were too short: there was nothing to measure in them"
START_SECONDS, TORCH_START_SECONDS = 4.0, 20.0  # of a crew, for estimates


def no_torch(stage: Stage, tenants: Sequence[Tenant]) -> str:
    """Return why these tenants cannot train here; empty = they can, or do not train."""
    if any(stage.resolved(tenant.work).script for tenant in tenants) and find_spec("torch") is None:
        return f"needs PyTorch, which {sys.executable} does not have"
    return ""


class Experiment(ABC):
    """Something that is measured as a whole.

    Attributes:
        name: Unique in the table; `--match` looks at it.
        group: For `--only`.
    """

    name: str
    group: str

    def why_not(self, stage: Stage) -> str:
        """Return why it cannot be run on this machine; empty = it can."""
        return ""

    @abstractmethod
    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""

    @abstractmethod
    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows.

        Raises:
            WorkerError: Something did not start, ended early or did not answer.
        """

    @abstractmethod
    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised."""


@dataclass(frozen=True)
class Line:
    """One row of a sharing experiment.

    Attributes:
        name: As shown.
        figure: What is read off each run; the row has the median of all runs.
        unit: Of the figure.
        target: What it has to reach.
        variant: Which variant's runs.
        beyond_native: Whether the figure is meant less the native one.
        detail: More to keep, from the last run with the library.
    """

    name: str
    figure: Callable[[Run], float]
    unit: str
    target: Target
    variant: str = ""
    beyond_native: bool = False
    detail: Callable[[Run], Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Sharing(Experiment):
    """Tenants work at the same time, in turns with and without the library, and with each peer.

    Attributes:
        name, group: As in every experiment.
        variants: Tenants by name of the variant, all of the same work; the native arm is run once for all.
        lines: Its rows.
        seconds: Length of a run.
        repeats: Runs in each arm.
        native_seconds: Length of a native run; `None` = the same.
        settle_seconds: Time at the start of a run that is not looked at.
        measures_alone: Whether what each tenant does alone is measured.
        why_not_simulated: Why it means nothing on a simulated board; empty = it does.
    """

    name: str
    group: str
    variants: Mapping[str, Sequence[Tenant]]
    lines: Sequence[Line]
    seconds: float = 2.0
    repeats: int = 3
    native_seconds: float | None = None
    settle_seconds: float = 0.2
    measures_alone: bool = False
    why_not_simulated: str = ""

    @property
    def tenants(self) -> Sequence[Tenant]:
        """Those of the first variant."""
        return next(iter(self.variants.values()))

    def why_not(self, stage: Stage) -> str:
        """Return why it cannot be run on this machine; empty = it can."""
        return (self.why_not_simulated if stage.is_simulated else "") or no_torch(stage, self.tenants)

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        trains = any(stage.resolved(tenant.work).script for tenant in self.tenants)
        native = self.seconds if self.native_seconds is None else self.native_seconds
        runs = self.repeats * (self.seconds * len(self.variants) + native)
        runs += len(peers) * len(self.variants) * min(self.seconds, MOST_PEER_SECONDS)
        runs += LEARN_SECONDS * (len(self.variants) + 1) * (1 + len(peers)) + ALONE_SECONDS * self.measures_alone
        starts = (TORCH_START_SECONDS if trains else START_SECONDS) * (1 + len(peers) * len(self.variants))
        return starts + runs * stage.scale

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows."""
        measured: dict[tuple[str, str], list[Run]] = {}
        with ExitStack() as stack:
            native = stack.enter_context(stage.crew(NATIVE, self.tenants))
            ours = {name: stack.enter_context(stage.crew(OURS, tenants)) for name, tenants in self.variants.items()}
            for crew in (native, *ours.values()):
                crew.wait_ready()
            # The first run brings the clocks up, and lets the meter learn.
            for crew in (*ours.values(), native):
                crew.run(LEARN_SECONDS * stage.scale)
            solo, alone = self._solo(native), self._alone(stage, native)
            as_run = partial(self._run, stage, solo, alone)
            for _ in range(self.repeats):
                for name, crew in ours.items():
                    measured.setdefault((name, OURS), []).append(as_run(crew, self.seconds))
                run = as_run(native, self.seconds if self.native_seconds is None else self.native_seconds)
                for name in self.variants:
                    measured.setdefault((name, NATIVE), []).append(run)
            # Whatever disturbs a measurement alone only makes it longer.
            solo = [min(pair) for pair in zip(solo, self._solo(native), strict=True)]
            as_run = partial(self._run, stage, solo, alone)
        measured = {arm: [replace(run, solo_ns=solo) for run in runs] for arm, runs in measured.items()}
        for peer in peers:
            for name, tenants in self.variants.items():
                try:
                    measured[name, peer.name] = [self._peer_run(stage, peer, tenants, as_run)]
                except WorkerError as error:
                    print(f"  {peer.name}: {error}", flush=True)
        return [self._row(line, measured, [peer.name for peer in peers]) for line in self.lines]

    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised."""
        return [
            Row(self.name, line.name, len(self.tenants), None, None, line.unit, line.target, error=why)
            for line in self.lines
        ]

    def _solo(self, native: Crew) -> list[float]:
        """Return the GPU time of a unit of each tenant, ns, measured now; it is the same for the same work."""
        solo: dict[str, float] = {}
        for number, tenant in enumerate(self.tenants):
            if tenant.work.name not in solo:
                solo[tenant.work.name] = native.solo_ns(number)
        return [solo[tenant.work.name] for tenant in self.tenants]

    def _alone(self, stage: Stage, native: Crew) -> list[float]:
        """Return units per second of each tenant alone, measured now; nothing where that is not looked at."""
        alone: dict[str, float] = {}
        seconds = ALONE_SECONDS * stage.scale
        for number, tenant in enumerate(self.tenants if self.measures_alone else ()):
            if tenant.work.name not in alone:
                (answer,) = native.run(seconds, only=[number])
                alone[tenant.work.name] = answer.progress.rate(0, seconds)
        return [alone[tenant.work.name] for tenant in self.tenants] if alone else []

    def _run(self, stage: Stage, solo: Sequence[float], alone: Sequence[float], crew: Crew, seconds: float) -> Run:
        seconds *= stage.scale
        answers: list[Answer] = crew.run(seconds)
        return Run(crew.tenants, answers, solo, alone, self.settle_seconds * stage.scale, seconds)

    def _peer_run(
        self, stage: Stage, peer: Peer, tenants: Sequence[Tenant], as_run: Callable[[Crew, float], Run]
    ) -> Run:
        with peer.running(stage):
            extra = [peer.environment(tenant, number) for number, tenant in enumerate(tenants)]
            with stage.crew(peer.name, tenants, extra) as crew:
                crew.wait_ready()
                crew.run(LEARN_SECONDS * stage.scale)
                return as_run(crew, min(self.seconds, MOST_PEER_SECONDS))

    def _row(self, line: Line, measured: Mapping[tuple[str, str], Sequence[Run]], peers: Sequence[str]) -> Row:
        def median(arm: str) -> float | None:
            found = [line.figure(run) for run in measured.get((line.variant, arm), ())]
            told = [figure for figure in found if math.isfinite(figure)]
            return statistics.median(told) if told else None

        ours_runs = measured[line.variant, OURS]
        ours, native = median(OURS), median(NATIVE)
        if line.beyond_native and ours is not None and native is not None:
            ours -= native
        last = ours_runs[-1]
        detail: dict[str, Any] = {
            "seconds": last.end - last.begin,
            "unit_us": [solo / 1e3 for solo in last.solo_ns],
            "had": last.had,
            "native_had": measured[line.variant, NATIVE][-1].had,
        }
        if last.alone_rates:
            detail |= {"wants": last.wants, "due": last.due}
        if line.detail is not None:
            detail |= line.detail(last)
        return Row(
            experiment=self.name,
            name=line.name,
            tenants=len(self.tenants),
            ours=ours,
            native=native,
            unit=line.unit,
            target=line.target,
            peers={name: median(name) for name in peers},
            runs=[figure for figure in map(line.figure, ours_runs) if math.isfinite(figure)],
            detail=detail,
            error=NOTHING_SEEN if ours is None else "",
        )
