"""A program in a slice gets the result codes that it would get without one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CALLS = BENCHMARKS / "sim" / "calls"
H200 = BENCHMARKS / "results" / "calls-2026-11-30-nvidia-h200.json"  # answered without a slice


def test_calls_in_a_slice_are_answered_as_an_h200_answers_them(start_agent: Callable[..., Any], tmp_path: Path) -> None:
    answers = tmp_path / "slice.json"
    part = start_agent("h200").claim(10 << 30)

    asked = subprocess.run(
        [sys.executable, str(CALLS), "run", str(answers)],
        env=part.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    part.end()
    compared = subprocess.run(
        [sys.executable, str(CALLS), "compare", str(H200), str(answers)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (asked.returncode, asked.stderr) == (0, "")
    assert compared.returncode == 0, compared.stdout
