"""A real agent on a simulated board, and a program that does everything in a slice of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.model import ClaimRequest, Memory, Profile
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

START_SECONDS = 120.0


class Stressed:
    """An agent, one slice of 20 GiB, and the environment of its programs."""

    def __init__(self, runtime_dir: Path) -> None:
        self._agent = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_vgpu.cli", "agent"),
                "--simulate",
                "a100-80",
                "--runtime-dir",
                runtime_dir,
            ],
            stderr=subprocess.DEVNULL,
        )
        self.hub = HubClient(runtime_dir, timeout_seconds=60.0)
        self._await_agent()
        profile = Profile("stress", 250_000, 1_000_000, Memory(None, 20 << 30))
        granted = self.hub.create_claim(ClaimRequest("stress", "test", os.getuid(), profile, "auto"))
        self.claim_id: str = granted.claim["claim"]
        self.environment = granted.edits.applied_to(dict(os.environ))

    def _await_agent(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.hub.health()
                return
            except AgentUnreachableError:
                assert self._agent.poll() is None, "the agent has ended"
                assert time.monotonic() < deadline, "the agent does not answer"
                time.sleep(0.05)

    def usage(self) -> Any:
        return self.hub.usage(self.claim_id)

    def is_empty(self) -> bool:
        usage = self.usage()
        return usage["processes"] == [] and usage["devices"][0]["memory_used_bytes"] == 0

    def close(self) -> None:
        self._agent.send_signal(signal.SIGTERM)
        self._agent.wait(START_SECONDS)


@pytest.fixture
def stressed() -> Iterator[Stressed]:
    # Not tmp_path: a socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        agent = Stressed(Path(folder))
        yield agent
        agent.close()


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


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any], str], Any]:
    def wait(holds: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + START_SECONDS
        while not (answer := holds()):
            assert time.monotonic() < deadline, what
            time.sleep(0.02)
        return answer

    return wait
