"""Every way to get device memory is limited, counted and freed: the memory matrix, on a simulated H200."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WALK = Path(__file__).parents[2] / "benchmarks" / "memory" / "walk.py"
WALK_SECONDS = 600.0


@pytest.fixture(scope="module")
def hopper(start_agent: Callable[[str], Any]) -> Any:
    """Return an agent on one simulated H200, which has multicast objects, too."""
    return start_agent("h200")


@pytest.fixture
def slice_of_hopper(hopper: Any) -> Iterator[Any]:
    granted = hopper.claim(1536 << 20)
    yield granted
    granted.end()


@pytest.mark.parametrize(
    "group",
    ["plain", "mapped", "graphs", "shared", pytest.param("contexts", marks=pytest.mark.slow)],
)
def test_every_way_is_limited_counted_and_freed(slice_of_hopper: Any, group: str) -> None:
    """Catches the bugs where arrays, mipmaps, graph nodes, imports, modules, heaps were not counted (CASES 7, 8, 9)."""
    done = subprocess.run(
        [sys.executable, WALK, group],
        env=slice_of_hopper.environment(),
        capture_output=True,
        text=True,
        timeout=WALK_SECONDS,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert [way for way in outcomes if way["gone"] and not (way["limited"] and way["counted"] and way["freed"])] == []
    assert sum(way["gone"] for way in outcomes) >= 5
