"""Where the meter is measured: tenants in claims of a real agent, on this machine's GPU or a simulated board."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.agent import NodeAgent
from bench.processes import Worker

from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR
from meter.cases import Case

HERE = Path(__file__).resolve().parent
ANSWER_SECONDS = 180.0
NVCC = ("nvcc", "-O2", "-std=c++17")
BUILDS = {
    "known": ("cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-x", "c", HERE / "known.c"),
    "work": (*NVCC, HERE / "work.cu"),
    # Launches by launches need device code that is linked, for this very GPU.
    "nested": (*NVCC, "-arch=native", "-rdc=true", "-DNESTED", HERE / "work.cu", "-lcudadevrt"),
}
# What known.c does as work.cu does.
IN_THE_DRIVER_API = ("burn", "streams", "crowd")
DRIVER = (f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1")  # on a GPU the real one answers


class Tenant:
    """One claim and the worker in it."""

    def __init__(
        self, agent: NodeAgent, number: int, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        """Claim a tenth of the GPU and start the worker in it."""
        self._agent = agent
        self.granted: GrantedClaim = agent.claim(f"t{number}", Fraction(1, 10), memory_bytes=12 << 30)
        self.worker = Worker(f"tenant {number}", command, self.granted.edits.applied_to(dict(environment)), log)
        self.process = self.worker.process

    @property
    def claim(self) -> str:
        """The claim's id."""
        return str(self.granted.claim["claim"])

    def tell(self, line: str) -> None:
        """Send one request."""
        self.worker.tell(line)

    def hear(self) -> list[float]:
        """Return the figures of one answer."""
        return [float(word) for word in self.worker.hear(ANSWER_SECONDS).split() if word != "ready"]

    def end(self) -> None:
        """End the worker and give the claim back."""
        self.worker.end()
        self._agent.release(self.granted)


def work(tenants: Sequence[Tenant], seconds: float) -> None:
    """Let all work at the same time for so long, and wait until they have."""
    for tenant in tenants:
        tenant.tell(f"run {seconds}")
    for tenant in tenants:
        tenant.hear()


@dataclass
class Stage:
    """A machine with a device and an agent.

    Attributes:
        agent: The running agent.
        folder: Scratch folder, removed by its owner.
        environment: What a tenant's process has, before the claim's edits.
        nvml: The `pynvml` module, initialised; `None` on a simulated board.
    """

    agent: NodeAgent
    folder: Path
    environment: Mapping[str, str]
    nvml: Any | None
    _built: dict[str, Path] = field(default_factory=dict)

    def why_not(self, case: Case) -> str:
        """Return why a case cannot be run here; empty = it can."""
        if self.nvml is None and case.command[0] != "known" and case.command[1] not in IN_THE_DRIVER_API:
            return "works by the CUDA runtime, which a simulated board does not have"
        if self.nvml is None and case.command[1] in ("copy", "fill"):
            return "a simulated board copies and fills as fast as this machine does"
        return ""

    def command(self, words: Sequence[str]) -> list[str]:
        """Return what to run for a worker and its arguments; what has to be compiled is.

        Raises:
            subprocess.SubprocessError: It does not compile.
        """
        name, *arguments = words
        if self.nvml is None and arguments[0] in IN_THE_DRIVER_API:
            name = "known"
        if name == "train":
            return [sys.executable, str(HERE / "train_work.py"), *arguments]
        if name not in self._built:
            program = self.folder / name
            build = [str(word) for word in (*BUILDS[name], "-o", program, *(DRIVER if name == "known" else ()))]
            subprocess.run(build, check=True)
            self._built[name] = program
        return [str(self._built[name]), *arguments]

    def flagged(self, tenants: Sequence[Tenant]) -> dict[int, str]:
        """Return what the agent says of whose meter says too little, by the tenant's place among these."""
        said = {
            str(event["claim"]): str(event["message"]) for event in self.agent.hub.events() if event["kind"] == "meter"
        }
        return {place: said[tenant.claim] for place, tenant in enumerate(tenants) if tenant.claim in said}

    @contextmanager
    def tenants(self, case: Case) -> Iterator[list[Tenant]]:
        """Start a case's tenants, then its neighbours; they are ready, and end with the context.

        Raises:
            WorkerError: One of them did not start.
        """
        commands = [case.command] * case.tenants + [case.neighbour] * case.neighbours
        with ExitStack() as cleanup:
            started = []
            for number, words in enumerate(commands):
                log = self.folder / f"{number}.log"
                tenant = Tenant(self.agent, number, self.command(words), self.environment, log)
                cleanup.callback(tenant.end)
                started.append(tenant)
            for tenant in started:
                tenant.hear()
            yield started
