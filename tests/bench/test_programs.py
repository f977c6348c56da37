"""The benchmarks that share an agent and workers: each starts far enough to say what it is for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("program", ["costs/run.py", "governor/run.py", "meter/run.py"])
def test_a_benchmark_says_what_it_is_for(program: str) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / program, "--help"], capture_output=True, text=True, check=False, timeout=100
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: run.py" in done.stdout
