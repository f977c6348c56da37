"""Where tenants run: on this machine's GPU or a simulated board, in claims of a real agent or without."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.agent import NodeAgent
from bench.machine import Card
from bench.processes import Worker, WorkerError

from governor.progress import Progress
from governor.work import BURN, HERE, Tenant, Work
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

NATIVE, OURS = "native", "ours"
READY_SECONDS = 120.0
ANSWER_SECONDS = 60.0
LEAD_SECONDS = 0.1  # from the word to the start, so that all start at once
BIN_SECONDS = 1e-3
_WHOLE = Fraction(1)
_NOT_INHERITED = {
    *("LD_PRELOAD", "JUPYTER_VGPU_SOCKET", "JUPYTER_VGPU_SECRET", "JUPYTER_VGPU_API", "JUPYTER_VGPU_SIM"),
    *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
}


@dataclass(frozen=True)
class Answer:
    """What one tenant says of one run.

    Attributes:
        progress: Its units by time; of all its processes together.
        waits: When each launch that it waited for began, seconds from the start, and how long it took, µs.
        pauses: When it stopped working and when it went on, for work that is on and off.
        other_switches: Switches of threads that are not the program's own.
        units: All units that it began in the run and finished, however long after the run's end.
        seconds: Until it had finished them, from the start.
    """

    progress: Progress
    waits: Sequence[tuple[float, float]] = ()
    pauses: Sequence[tuple[float, float]] = ()
    other_switches: int = 0
    units: int = 0
    seconds: float = 0.0


@dataclass
class Crew:
    """The processes of all tenants, in one arm of an experiment.

    Attributes:
        tenants: Who they are.
        workers: Their processes; shape (tenants, processes).
        claims: Ids of the claims they run in, with the library.
    """

    tenants: Sequence[Tenant]
    workers: list[list[Worker]] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)

    def wait_ready(self) -> None:
        """Wait until all have started."""
        for worker in self.all_workers():
            worker.hear(READY_SECONDS)

    def solo_ns(self, number: int) -> float:
        """Return the GPU time of one unit of a tenant, measured now."""
        worker = self.workers[number][0]
        worker.tell("solo")
        return float(worker.hear(ANSWER_SECONDS))

    def begin(self, seconds: float, only: Sequence[int] | None = None) -> float:
        """Tell all, or some, to work for so long; return when they start, seconds of CLOCK_MONOTONIC."""
        at = time.monotonic() + LEAD_SECONDS
        for worker in self.all_workers(only):
            worker.tell(f"run {seconds} {at:.6f}")
        return at

    def end_run(self, seconds: float, only: Sequence[int] | None = None) -> list[Answer]:
        """Return the answers to `begin`."""
        limit = seconds + ANSWER_SECONDS
        return [
            _answer([worker.hear_json(limit) for worker in workers])
            for number, workers in enumerate(self.workers)
            if only is None or number in only
        ]

    def run(self, seconds: float, only: Sequence[int] | None = None) -> list[Answer]:
        """Have all, or some, work for so long; return their answers, in the tenants' order."""
        self.begin(seconds, only)
        return self.end_run(seconds, only)

    def all_workers(self, only: Sequence[int] | None = None) -> Iterator[Worker]:
        """Yield the processes of all tenants, or of some."""
        for number, workers in enumerate(self.workers):
            if only is None or number in only:
                yield from workers


def _answer(told: Sequence[Mapping[str, Any]]) -> Answer:
    progresses = [
        Progress.from_times(one["times"]) if "times" in one else Progress.from_bins(one["bins"], BIN_SECONDS)
        for one in told
    ]
    return Answer(
        Progress.total(progresses),
        [(begin, took) for one in told for begin, took in one.get("waits", ())],
        [(begin, end) for one in told for begin, end in one.get("edges", ())],
        sum(one.get("other_switches", 0) for one in told),
        sum(one.get("units", 0) for one in told),
        max(one.get("seconds", 0.0) for one in told),
    )


@dataclass
class Stage:
    """A machine with a device and an agent.

    Attributes:
        card: The device.
        folder: Scratch folder, removed by its owner.
        agent: The running agent.
        environment: What a native process has.
        is_simulated: Whether the device is a simulated board.
        scale: What all durations are multiplied by.
    """

    card: Card
    folder: Path
    agent: NodeAgent
    environment: Mapping[str, str]
    is_simulated: bool
    scale: float = 1.0
    _logs: int = 0

    def resolved(self, work: Work) -> Work:
        """Return what does this work here."""
        return work.simulated or work if self.is_simulated else work

    @cached_property
    def program(self) -> Path:
        """The C client, compiled. It is linked against the simulated driver; on a GPU the real one answers."""
        program = self.folder / "tenant"
        compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-o", str(program), str(HERE / "tenant.c")]
        libraries = [f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-lpthread"]
        subprocess.run([compiler, *flags, *libraries], check=True)
        return program

    @cached_property
    def ns_per_iteration(self) -> float:
        """How long an iteration of the C client's loop takes; a simulated board goes by the launch's name."""
        if self.is_simulated:
            return 20.0
        with self.crew(NATIVE, [Tenant(BURN, share=_WHOLE)], calibrating=True) as crew:
            crew.wait_ready()
            worker = crew.workers[0][0]
            worker.tell("calibrate")
            found = float(worker.hear(ANSWER_SECONDS))
        if not found > 0:
            raise WorkerError(
                f"calibration: an iteration cannot take {found} ns, so launches would have no known length"
            )
        return found

    @contextmanager
    def crew(
        self,
        arm: str,
        tenants: Sequence[Tenant],
        extra: Sequence[Mapping[str, str]] | None = None,
        calibrating: bool = False,
    ) -> Iterator[Crew]:
        """Start the processes of tenants; they end with the context, and their claims with them.

        Args:
            arm: `NATIVE`, `OURS` (in claims of the agent), or a peer's name.
            tenants: Who.
            extra: More environment of each tenant, for peers; shape (tenants,).
            calibrating: Whether the length of an iteration is what is about to be measured.

        Yields:
            The crew; nobody has been waited for.
        """
        with ExitStack() as cleanup:
            crew = Crew(tenants)
            for number, tenant in enumerate(tenants):
                work = self.resolved(tenant.work)
                settings = work.environment(20.0 if calibrating else self.ns_per_iteration)
                environment = {**self.environment, **settings, **(extra[number] if extra else {})}
                if arm == OURS:
                    memory_bytes = (work.memory_bytes + (1 << 30)) * tenant.processes
                    granted = self.agent.claim(
                        f"t{number}", tenant.share, tenant.ceiling, memory_bytes, tenant.devices, tenant.priority
                    )
                    cleanup.callback(self.agent.release, granted)
                    crew.claims.append(granted.claim["claim"])
                    environment = granted.edits.applied_to(environment)
                workers = []
                for process in range(tenant.processes):
                    self._logs += 1
                    log = self.folder / f"worker-{self._logs}.log"
                    name = f"{arm} tenant {number}.{process} ({work.name})"
                    worker = Worker(name, work.command(self.program), environment, log)
                    cleanup.callback(worker.end)
                    workers.append(worker)
                crew.workers.append(workers)
            yield crew


def native_environment(simulated_state: Path | None) -> dict[str, str]:
    """Return this process's environment as a native client's: no library, and the board where there is one."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    if simulated_state is not None:
        paths = [str(SIMULATED_DRIVER_DIR), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment |= {"JUPYTER_VGPU_SIM": str(simulated_state), "LD_LIBRARY_PATH": ":".join(paths)}
    return environment
