"""What a slice says of its memory, against what the host's NVML says of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

LOOK_SECONDS = 3.0
PROGRAM = """
import sys, torch
x = torch.ones(4 << 30, dtype=torch.uint8, device="cuda"); (x[:1000].float() @ x[:1000].float()).item()
print("ready", flush=True)
sys.stdin.readline()
free, total = torch.cuda.mem_get_info()
print(total - free, flush=True)
sys.stdin.readline()
"""


def test_the_figure_inside_is_the_figure_outside() -> None:
    """Within 2 % or 64 MiB: catches a bug where contexts were not counted (CASES 17)."""
    pynvml = pytest.importorskip("pynvml")
    command = [
        sys.executable,
        "-m",
        "jupyter_vgpu.cli",
        "run",
        "--memory",
        "16GiB",
        "--",
        sys.executable,
        "-c",
        PROGRAM,
    ]
    run = subprocess.Popen(command, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdin and run.stdout
    try:
        assert run.stdout.readline() == "ready\n"
        time.sleep(LOOK_SECONDS)
        run.stdin.write("\n")
        run.stdin.flush()
        inside = int(run.stdout.readline())
        pynvml.nvmlInit()
        # Whichever device the agent serves.
        boards = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        rows = [row for board in boards for row in pynvml.nvmlDeviceGetComputeRunningProcesses(board)]
        own = {process.pid for process in psutil.Process(run.pid).children(recursive=True)}
        outside = sum(row.usedGpuMemory for row in rows if row.pid in own)
    finally:
        run.communicate("\n", timeout=60)

    assert outside > 4 << 30
    assert abs(inside - outside) <= max(0.02 * outside, 64 << 20)
