"""A node agent for a benchmark, and claims on it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from bench.machine import ROOT
from bench.processes import WorkerError, die_with_parent
from jupyter_vgpu.client import GrantedClaim, HubClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.model import ClaimRequest, Memory, Priority, Profile

START_SECONDS = 60.0
STOP_SECONDS = 30.0
HUB_NAME = "benchmark"


class NodeAgent:
    """`jupyter vgpu agent`, in a process of its own.

    Attributes:
        program: What Python runs.
        pipes: Its input and output, as for `Popen`; `None` = this process's own.
    """

    program: Sequence[str] = ("-m", "jupyter_vgpu.cli")
    pipes: int | None = None

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Say where it lives; nothing is started yet.

        Args:
            folder: An existing folder for its sockets, claims and log.
            environment: All of its environment; names the simulated board where there is one.
        """
        self.runtime_dir = folder / "agent"
        self.hub = HubClient(self.runtime_dir)
        self.log = folder / "agent.log"
        self._environment = {**environment, "PYTHONPATH": f"{ROOT}:{environment.get('PYTHONPATH', '')}"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers; it takes up the claims of the one before.

        Raises:
            WorkerError: It does not start.
        """
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, "agent", "--runtime-dir", str(self.runtime_dir)],
                env=self._environment,
                stdin=self.pipes,
                stdout=self.pipes,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.hub.health()
                return
            except VGPUError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    words = self.log.read_text(errors="replace").strip().splitlines()[-3:]
                    raise WorkerError(f"the agent does not start: {' / '.join(words)}") from None
                time.sleep(0.02)

    def ensure(self) -> None:
        """Start it if it has ended or does not answer.

        Raises:
            WorkerError: It does not start.
        """
        assert self.process is not None
        try:
            if self.process.poll() is None:
                self.hub.health()
                return
        except VGPUError:
            pass
        self.kill()
        self.start()

    def kill(self) -> None:
        """Kill it, as the kernel would when memory runs out."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it, with all that it started; twice is once."""
        if self.process is None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def cpu_seconds(self) -> float:
        """Return the processor time it has had, all threads.

        Source: proc(5), /proc/pid/stat, utime and stime.
        """
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))

    def claim(
        self,
        tenant: str,
        share: Fraction,
        ceiling: Fraction = Fraction(1),
        memory_bytes: int = 2 << 30,
        devices: int = 1,
        priority: Priority = "normal",
    ) -> GrantedClaim:
        """Return a new claim.

        Args:
            tenant: Whose it is.
            share: Part of each device that is promised, in (0, 1].
            ceiling: Most of each device that may be used, in [share, 1].
            memory_bytes: Of each device.
            devices: How many.
            priority: One of `jupyter_vgpu.model.PRIORITIES`.

        Raises:
            WorkerError: It is not granted.
        """
        ppm = 1_000_000
        profile = Profile(
            name=f"{tenant}'s",
            share_ppm=int(share * ppm),
            ceiling_ppm=int(ceiling * ppm),
            memory=Memory(size_bytes=memory_bytes),
            devices=devices,
            priority=priority,
        )
        request = ClaimRequest(tenant=tenant, hub=HUB_NAME, uid=os.getuid(), profile=profile, backend="intercept")
        try:
            return self.hub.create_claim(request)
        except VGPUError as error:
            raise WorkerError(f"no claim for {tenant}: {error}") from error

    def release(self, granted: GrantedClaim) -> None:
        """Give a claim back; an agent that is gone has none."""
        with contextlib.suppress(VGPUError):
            self.hub.release_claim(granted.claim["claim"])


@contextmanager
def running_agent(folder: Path, environment: Mapping[str, str]) -> Iterator[NodeAgent]:
    """Run an agent for as long as the context lasts.

    Raises:
        WorkerError: It does not start.
    """
    agent = NodeAgent(folder, environment)
    try:
        agent.start()
        yield agent
    finally:
        agent.stop()
