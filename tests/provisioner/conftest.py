"""A real agent on a simulated board, and programs that ask the driver for memory on behalf of a slice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from jupyter_vgpu.client import GrantedClaim, HubClient, UserClient
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

# Says how much of its device there is, takes what it is told to (in GiB), says whether it got it, and holds it.
PROGRAM = """
import sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
print(driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1], flush=True)
for line in sys.stdin:
    error, pointer = driver.cuMemAlloc(int(float(line) * (1 << 30)))
    print(error.name, flush=True)
"""


class Node:
    """An agent in a process of its own, which can be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = HubClient(folder, timeout_seconds=60.0)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the agent, and wait until it answers."""
        command = [sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--simulate", "a100-80"]
        with (self.folder.with_suffix(".log")).open("ab") as log:
            self.process = subprocess.Popen([*command, "--runtime-dir", str(self.folder)], stderr=log)
        deadline = time.monotonic() + 120
        while True:
            try:
                self.hub.health()
                return
            except AgentUnreachableError:
                said = self.folder.with_suffix(".log").read_text()
                assert self.process.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.05)

    def stop(self) -> None:
        """End the agent."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def user(self, granted: GrantedClaim) -> UserClient:
        """Return a client as the tenant's processes have it."""
        env = granted.edits.env
        return UserClient(env["JUPYTER_VGPU_API"], env["JUPYTER_VGPU_SECRET"], timeout_seconds=60.0)


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """Return a node with one simulated A100-80."""
    folder = Path(tempfile.mkdtemp(prefix="p"))
    node = Node(folder)
    node.start()
    yield node
    node.stop()
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".log").unlink()


@pytest.fixture
def quarter(node: Node) -> Iterator[GrantedClaim]:
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
        assert self.process.stdin is not None
        self.process.stdin.write(f"{gib}\n")
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
