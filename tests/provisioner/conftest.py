"""A real agent on a simulated board, and programs that ask the driver for memory on behalf of a slice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from harness.agents import NodeAgent
from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

# Says how much of its device there is. Takes what it is told to (in GiB), says whether it got it, and holds it;
# launches as often as it is told to, and says when that is done.
PROGRAM = """
import sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
print(driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1], flush=True)
for line in sys.stdin:
    what, amount = line.split()
    if what == "take":
        error, pointer = driver.cuMemAlloc(int(float(amount) * (1 << 30)))
    else:
        module = driver.cuModuleLoadData(b"any text\\0")[1]
        function = driver.cuModuleGetFunction(module, b"sim_busy_1000us")[1]
        for _ in range(int(amount)):
            driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
        (error,) = driver.cuCtxSynchronize()
    print(error.name, flush=True)
"""


@pytest.fixture(scope="session")
def node() -> Iterator[NodeAgent]:
    """Return a node with one simulated A100-80."""
    # Not tmp_path: a socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="p") as folder, NodeAgent(Path(folder) / "run").running() as agent:
        yield agent


@pytest.fixture
def quarter(node: NodeAgent) -> Iterator[GrantedClaim]:
    """Return a claim of a quarter of the board: 19.8 GiB."""
    profile = Profile("1/4 GPU", share_ppm=250_000, ceiling_ppm=1_000_000, memory=Memory(Fraction(1, 4)))
    granted = node.hub.create_claim(ClaimRequest("ada", "a hub", os.getuid(), profile))
    yield granted
    node.hub.release_claim(granted.claim["claim"])


class Program:
    """A program of the slice, or of a part of it."""

    def __init__(self, granted: GrantedClaim, secret: str) -> None:
        environment = {**granted.edits.applied_to(dict(os.environ)), "JUPYTER_VGPU_SECRET": secret or granted.secret}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.sees_bytes = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def takes(self, gib: float) -> bool:
        """Ask for memory; return whether it was granted."""
        return self._does("take", gib)

    def launches(self, times: int) -> bool:
        """Launch something of a millisecond, and wait until all is done; return whether it was."""
        return self._does("launch", times)

    def _does(self, what: str, amount: float) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {amount}\n")
        self.process.stdin.flush()
        return self._line() == "CUDA_SUCCESS"

    def end(self) -> None:
        """End it; what it held is free then."""
        self.process.communicate(timeout=60)


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Return a function that starts a program in a slice, or with `secret` in a part of it."""
    started: list[Program] = []

    def start(granted: GrantedClaim, secret: str = "") -> Program:
        started.append(Program(granted, secret))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()
