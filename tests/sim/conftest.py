"""Real clients (cuda-bindings, nvidia-ml-py) in processes of their own, on a simulated node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import SIMULATED_CUDA, SIMULATED_DRIVER_DIR, SIMULATED_NVML, present
from jupyter_vgpu.sim import create_boards

# What every client script begins with.
PRELUDE = """
import json, os, signal, sys
from cuda.bindings import driver as cuda

GIB = 1 << 30
MIB = 1 << 20

def ok(result, *values):
    assert result == cuda.CUresult.CUDA_SUCCESS, result
    return values[0] if len(values) == 1 else values

def code(result, *values):
    return int(result)

def start(ordinal=0):
    ok(*cuda.cuInit(0))
    context = ok(*cuda.cuDevicePrimaryCtxRetain(ok(*cuda.cuDeviceGet(ordinal))))
    ok(*cuda.cuCtxSetCurrent(context))
    return context

def function(name):
    module = ok(*cuda.cuModuleLoadData(b"// any text"))
    return ok(*cuda.cuModuleGetFunction(module, name.encode()))

def launch(kernel, stream=0, args=0):
    ok(*cuda.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, stream, args, 0))

def free_bytes():
    return ok(*cuda.cuMemGetInfo())[0]

def nvml(index=0):
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByIndex(index)

def say(value):
    print(json.dumps(value), flush=True)

def heard():
    return json.loads(sys.stdin.readline())
"""

SECONDS = 240


def program(script: str) -> list[str]:
    """Return the command of a client; few ask NVML, whose bindings take a third of a client's start."""
    imports = "import pynvml\n" if "nvml" in script else ""
    return [sys.executable, "-c", imports + PRELUDE + textwrap.dedent(script)]


class Client:
    """A client that goes on until it is told to end, one line of JSON in, one out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def hear(self) -> Any:
        """Return the next thing the client says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the client ended: {self.process.wait(SECONDS)}"
        return json.loads(line)

    def tell(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()


class Node:
    """One machine with simulated boards."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.clients: list[Client] = []

    def environment(self, **more: str) -> dict[str, str]:
        hidden = ("CUDA_", "NVIDIA_", "JUPYTER_VGPU_", "LD_PRELOAD", "LD_LIBRARY_PATH")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
        # The mark of the test run (tests/conftest.py) must stay.
        environment |= {key: value for key, value in os.environ.items() if key == "JUPYTER_VGPU_TEST_RUN"}
        environment |= {"LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR), "JUPYTER_VGPU_SIM": str(self.state)}
        return environment | more

    def run(self, script: str, **more: str) -> Any:
        """Run a client to its end and return what it said last."""
        done = subprocess.run(
            program(script),
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, script: str, **more: str) -> Client:
        """Start a client that is ended with the test at the latest."""
        process = subprocess.Popen(
            program(script),
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        client = Client(process)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.process.kill()
            client.process.communicate()


@pytest.fixture(scope="session", autouse=True)
def simulated_driver() -> Path:
    """Fail with what to do where the libraries have not been built."""
    present(SIMULATED_NVML)
    return present(SIMULATED_CUDA)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    nodes: list[Node] = []

    def make(spec: str) -> Node:
        node = Node(create_boards(tmp_path / f"state-{len(nodes)}", spec))
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    """One A100-80."""
    return make_node("a100-80")
