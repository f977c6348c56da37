"""A real agent on a simulated board, and programs that run in slices of it with the library preloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest

from harness.agents import NodeAgent
from jupyter_vgpu.client import GrantedClaim, UsageInfo
from jupyter_vgpu.model import ClaimRequest, Memory, Profile
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

PROGRAM_SECONDS = 240.0

# What each program may use without saying so: a context, and a call that must succeed.
PRELUDE = """
import os, signal, sys, time
from cuda.bindings import driver as cu

GIB, MIB = 1 << 30, 1 << 20

def ok(answer):
    assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]

def refused(answer):
    return answer[0] == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY

def start(ordinal=0):
    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(ordinal))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(device))))
    return device

def free():
    return ok(cu.cuMemGetInfo())[0]

def say(*words):
    print(*words, flush=True)
"""


class Agent(NodeAgent):
    """A node agent process on a simulated board."""

    def claim(
        self, memory_bytes: int, share: str = "1/8", devices: int = 1, tenant: str = "alice", ceiling: str = "1"
    ) -> Slice:
        """Return a slice for `tenant`, this user's own."""
        part = Fraction(share)
        profile = Profile(
            name="test",
            share_ppm=int(part * 1_000_000),
            ceiling_ppm=int(Fraction(ceiling) * 1_000_000),
            memory=Memory(fraction=None, size_bytes=memory_bytes),
            devices=devices,
        )
        request = ClaimRequest(tenant=tenant, hub="test", uid=os.getuid(), profile=profile, backend="auto")
        return Slice(self, self.hub.create_claim(request))


class Slice:
    """One tenant's hold on the board, and programs run in it."""

    def __init__(self, agent: Agent, granted: GrantedClaim) -> None:
        """Hold what the agent granted."""
        self._agent = agent
        self.granted = granted
        self.claim_id: str = granted.claim["claim"]
        self._programs: list[subprocess.Popen[str]] = []

    def environment(self, **changes: str | None) -> dict[str, str]:
        """Return a program's environment in this slice; `None` removes a variable."""
        edits = self.granted.edits
        environment = {**os.environ, **edits.env}
        environment["LD_PRELOAD"] = ":".join(edits.preload)
        environment["LD_LIBRARY_PATH"] = ":".join(edits.library_path)
        for name, value in changes.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        return environment

    def start(self, program: str, wrapped: Sequence[str] = (), **changes: str | None) -> subprocess.Popen[str]:
        """Start a Python program after the prelude, by a command if it is `wrapped`; the caller waits for it."""
        process = subprocess.Popen(
            [*wrapped, sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            env=self.environment(**changes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._programs.append(process)
        return process

    def run(self, program: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        """Run a Python program after the prelude to its end, whatever that is."""
        process = self.start(program, **changes)
        out, err = process.communicate(timeout=PROGRAM_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def says(self, program: str, **changes: str | None) -> list[str]:
        """Run a program that must succeed and return its lines."""
        done = self.run(program, **changes)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def ask(self, program: subprocess.Popen[str]) -> str:
        """Send a program that was started an empty line and return the line that it says."""
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        return program.stdout.readline()

    def usage(self) -> UsageInfo:
        """Return what the agent says this slice uses."""
        return self._agent.hub.usage(self.claim_id)

    def used_bytes(self) -> int:
        """Return the memory the agent says this slice uses on its first device."""
        return self.usage()["devices"][0]["memory_used_bytes"]

    def release(self) -> None:
        """Give the slice back."""
        self._agent.hub.release_claim(self.claim_id)

    def end(self) -> None:
        """Give the slice back and end what still runs in it."""
        self.release()
        for process in self._programs:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def start_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Agent]]:
    """Return a function that starts an agent on a board; all are ended at the end of the session."""
    with ExitStack() as cleanup:

        def start(board: str, *options: str) -> Agent:
            agent = Agent(tmp_path_factory.mktemp("agent"), *options, boards=board)
            return cleanup.enter_context(agent.running())

        yield start


@pytest.fixture(scope="session")
def node(start_agent: Callable[..., Agent]) -> Agent:
    """Return an agent on one simulated A100-80 that all tests share."""
    return start_agent("a100-80")


@pytest.fixture(scope="session")
def driver_time(start_agent: Callable[..., Agent]) -> Agent:
    """Return an agent that leaves GPU time to the driver's own turns."""
    return start_agent("a100-80", "--time", "driver")


@pytest.fixture(scope="session")
def two_devices(start_agent: Callable[..., Agent]) -> Agent:
    """Return an agent on two simulated A100-80."""
    return start_agent("2xa100-80")


@pytest.fixture
def claim(node: Agent) -> Iterator[Callable[..., Slice]]:
    """Return a function that claims slices of the shared node; they are released after the test."""
    with ExitStack() as cleanup:

        def make(memory_bytes: int, **wishes: str) -> Slice:
            granted = node.claim(memory_bytes, **wishes)
            cleanup.callback(granted.end)
            return granted

        yield make


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that compiles a C program against the simulated driver."""

    def compile_it(source: Path) -> Path:
        program = tmp_path_factory.mktemp("program") / source.stem
        flags = ["-std=gnu11", "-O1", f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-ldl", "-lpthread"]
        subprocess.run(["cc", "-o", program, source, *flags], check=True)
        return program

    return compile_it


@pytest.fixture
def ten_gib(claim: Callable[..., Slice]) -> Slice:
    """Return a slice of 10 GiB."""
    return claim(10 << 30)
