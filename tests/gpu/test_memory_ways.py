"""Every way to get device memory is limited, counted and freed: the memory matrix, on the real GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WALK = Path(__file__).parents[2] / "benchmarks" / "memory" / "walk.py"
WALK_SECONDS = 600.0


@pytest.mark.parametrize("group", ["plain", "mapped", "graphs", "contexts", "shared"])
def test_every_way_is_limited_counted_and_freed(group: str) -> None:
    """CASES 7, 8, 9. Multicast objects are left out there: walk.py goes them on simulated boards only."""
    run = [sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", "1536MiB", "--"]
    done = subprocess.run([*run, sys.executable, WALK, group], capture_output=True, text=True, timeout=WALK_SECONDS)
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    assert done.returncode == 0, done.stderr[-4000:]
    assert [way for way in outcomes if way["gone"] and not (way["limited"] and way["counted"] and way["freed"])] == []
    assert sum(way["gone"] for way in outcomes) >= 5
