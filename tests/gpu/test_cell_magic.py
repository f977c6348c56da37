"""`%%vgpu` in a slice of a real GPU: its figures of a torch cell against what torch itself counts and times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CELLS = Path(__file__).parents[1] / "magic" / "cells.py"
WITHIN = 0.02
LONGEST_SECONDS = 600.0

# `timed` runs a piece of work between two events of the stream, which say how long the GPU was at it.
START = """
import time, torch
events = []

def timed(work):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record(); work(); end.record()
    events.append((start, end))

def event_seconds():
    torch.cuda.synchronize()
    return sum(start.elapsed_time(end) for start, end in events) / 1e3

a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
small = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)

# Each takes the GPU several times as long as the host takes to launch it: where the GPU waits for the host, its events
# time the host.
def large_products(): [a @ a for _ in range(40)]
def small_products(): [small @ small for _ in range(100)]
def elementwise(): [torch.relu_(a) for _ in range(200)]

# The meter knows a function's duration once it has seen it, and torch chooses its functions at the first call. What
# they allocate stays torch's: where the cell gave it back, a hundred allocations would keep the host from launching
# while its events go on counting.
for work in (large_products, small_products, elementwise):
    for _ in range(20): work()
torch.cuda.synchronize()
"""
MEASURED = """%%vgpu --json
big = torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
for _ in range(10):
    timed({work})
    {pause}
torch.cuda.synchronize()
time.sleep(0.3)
del big
"""
TRUTH = """
import json
print(json.dumps({"seconds": event_seconds(), "batches": [start.elapsed_time(end) for start, end in events],
                  "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
"""


def run_cells(folder: Path, *cells: str) -> list[dict[str, Any]]:
    """Return what each cell gave, run one after the other in an IPython shell in a slice of 16 GiB."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", "16GiB", "--"),
            *(sys.executable, str(CELLS)),
        ],
        input=json.dumps(["%load_ext jupyter_vgpu", *cells]),
        env={**os.environ, "IPYTHONDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: list[dict[str, Any]] = json.loads(done.stdout)[1:]
    assert [result["error"] for result in results] == [""] * len(cells)
    return results


@pytest.mark.parametrize(
    "pause", ["pass", "torch.cuda.synchronize(); time.sleep(0.02)"], ids=["at once", "with pauses"]
)
@pytest.mark.parametrize("work", ["large_products", "small_products", "elementwise"])
def test_the_cost_of_a_torch_cell_is_what_torch_says(tmp_path: Path, work: str, pause: str) -> None:
    _, measured, truth = run_cells(tmp_path, START, MEASURED.format(work=work, pause=pause), TRUTH)

    cost, true = json.loads(measured["printed"]), json.loads(truth["printed"])
    assert cost["reason"] == ""
    assert cost["torch_peak"]["used_bytes"] == pytest.approx(true["allocated"], rel=WITHIN)
    # What the agent saw from outside, not what torch told the magic.
    assert max(cost["memory_bytes"]) == pytest.approx(true["reserved"], rel=WITHIN)
    assert cost["peak_bytes"] == pytest.approx(true["reserved"], rel=WITHIN)
    assert cost["gpu_seconds"] == pytest.approx(true["seconds"], rel=WITHIN), f"milliseconds: {true['batches']}"
