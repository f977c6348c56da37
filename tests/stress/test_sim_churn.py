"""Many processes on one simulated board, killed at random: nothing hangs, leaks or stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("JVGPU_CHURN_SECONDS", "120"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]

CHURN = Path(__file__).resolve().parents[2] / "benchmarks" / "sim" / "churn.py"


def test_64_processes_come_and_are_killed_and_the_board_is_as_before() -> None:
    done = subprocess.run(
        [sys.executable, CHURN, "--seconds", str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=SECONDS + 240,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "left: 0 bytes, 0 processes, files in /dev/shm: none" in done.stdout
