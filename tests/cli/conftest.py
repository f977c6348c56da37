"""The command line as a user has it: a process with arguments, output and an exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agents import NodeAgent

CLI = (sys.executable, "-m", "jupyter_vgpu.cli")


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files of this test's commands alone, so that what they leave is seen."""
    for name in list(os.environ):
        if name.startswith("JUPYTER_VGPU_") and name != "JUPYTER_VGPU_TEST_RUN":
            monkeypatch.delenv(name)
    path = Path(tempfile.mkdtemp(prefix="c"))
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def vgpu() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `jupyter vgpu` to its end and return what came of it."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*CLI, *arguments], capture_output=True, text=True, timeout=240, check=False, **options)

    return run


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `jupyter vgpu` in a session of its own; whatever of it is left at the end is killed."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*CLI, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="module")
def system_agent() -> Iterator[Path]:
    """The runtime directory of a running agent."""
    with tempfile.TemporaryDirectory(prefix="a") as folder, NodeAgent(Path(folder) / "run").running() as agent:
        yield agent.runtime_dir
