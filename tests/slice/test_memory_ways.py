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


# Passes two lines of the first walk on; then that has ended by a segmentation fault.
ENDS_IN_THE_THIRD_WAY = """
import subprocess, sys
command = sys.argv[2:]
walk = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
for count, line in enumerate(walk.stdout, 1):
    print(line, end="", flush=True)
    if count == 2 and command[-1] == "0":
        walk.kill()
        walk.wait()
        sys.exit(139)
sys.exit(walk.wait())
"""


def test_a_walk_that_ends_loses_only_the_way_that_ended_it(slice_of_hopper: Any) -> None:
    """Catches a bug where the matrix had no table at all: an H200's driver had ended one of its walks."""
    matrix = "import json, matrix, sys; print(json.dumps(matrix.walk('shared', sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", matrix, sys.executable, "-c", ENDS_IN_THE_THIRD_WAY],
        env=slice_of_hopper.environment(PYTHONPATH=str(WALK.parent)),
        capture_output=True,
        text=True,
        timeout=WALK_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)

    notes = [way["note"] for way in outcomes]
    held = [way["gone"] and way["limited"] and way["counted"] and way["freed"] for way in outcomes]
    assert notes == ["", "", "ended the process (SIGSEGV)", "", ""]
    assert held == [True, True, False, True, True]
