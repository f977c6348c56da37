"""A real agent on a simulated board, and a program that does everything in a slice of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agents import NodeAgent
from jupyter_vgpu.model import ClaimRequest, Memory, Profile
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR


class Stressed:
    """An agent, one slice of 20 GiB, and the environment of its programs."""

    def __init__(self, agent: NodeAgent) -> None:
        self.hub = agent.hub
        profile = Profile("stress", 250_000, 1_000_000, Memory(None, 20 << 30))
        granted = self.hub.create_claim(ClaimRequest("stress", "test", os.getuid(), profile, "auto"))
        self.claim_id: str = granted.claim["claim"]
        self.environment = granted.edits.applied_to(dict(os.environ))

    def usage(self) -> Any:
        return self.hub.usage(self.claim_id)

    def is_empty(self) -> bool:
        usage = self.usage()
        return usage["processes"] == [] and usage["devices"][0]["memory_used_bytes"] == 0


@pytest.fixture
def stressed() -> Iterator[Stressed]:
    # Not tmp_path: a socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="s") as folder, NodeAgent(Path(folder) / "run").running() as agent:
        yield Stressed(agent)


@pytest.fixture(scope="session")
def compile_client() -> Callable[[Path, Path], Path]:
    """Return a function that compiles a C program against the simulated driver, into a folder."""

    def compile_into(source: Path, folder: Path) -> Path:
        program = folder / source.stem
        libraries = [f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1"]
        compiler = shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-std=gnu11", "-O1", "-g", "-o", program, source, *libraries], check=True)
        return program

    return compile_into


@pytest.fixture(scope="session")
def tenant_program(tmp_path_factory: pytest.TempPathFactory, compile_client: Callable[[Path, Path], Path]) -> Path:
    """Return `tenant.c`, compiled: a program that does everything."""
    return compile_client(Path(__file__).with_name("tenant.c"), tmp_path_factory.mktemp("tenant"))
