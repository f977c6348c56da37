"""Programs in a slice of the real GPU, through `jupyter vgpu run` as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

PROGRAM_SECONDS = 300.0

RunInSlice = Callable[..., list[str]]


@pytest.fixture
def in_slice() -> RunInSlice:
    """Return a function that runs a Python program in a slice of 16 GiB and returns its lines."""

    def run(program: str, memory: str = "16GiB", **environment: str) -> list[str]:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", memory, "--"),
                *(sys.executable, "-c", textwrap.dedent(program)),
            ],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.splitlines()

    return run
