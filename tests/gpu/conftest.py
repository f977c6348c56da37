"""Programs in a slice of the real GPU, through `jupyter vgpu run` as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM_SECONDS = 300.0

RunInSlice = Callable[..., list[str]]


@pytest.fixture
def in_slice(tmp_path: Path) -> RunInSlice:
    """Return a function that runs a Python program in a slice of 16 GiB and returns its lines."""

    def run(program: str, memory: str = "16GiB", **environment: str) -> list[str]:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", memory, "--"),
                *(sys.executable, "-c", textwrap.dedent(program)),
            ],
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.splitlines()

    return run
