"""Programs nobody here wrote, as they come from PyPI, on a simulated node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(node: Any, *command: str) -> str:
    done = subprocess.run(
        command,
        env=node.environment(TERM="xterm", COLUMNS="160", LC_ALL="C.UTF-8"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def busy_neighbour(node: Any) -> Any:
    client = node.start("""
        start()
        place = ok(*cuda.cuMemAlloc(3 * GIB))
        launch(function("sim_busy_600000000us"))
        say("ready")
        heard()
    """)
    client.hear()
    return client


def test_gpustat_shows_the_board_and_who_is_on_it(node: Any) -> None:
    pytest.importorskip("gpustat")
    neighbour = busy_neighbour(node)

    told = json.loads(run(node, sys.executable, "-m", "gpustat", "--json"))

    (board,) = told["gpus"]
    assert board["name"] == "Simulated NVIDIA A100-SXM4-80GB"
    assert board["memory.total"] == 81920
    (process,) = board["processes"]
    assert (process["pid"], process["gpu_memory_usage"]) == (neighbour.pid, 3072 + 450)


def test_nvitop_shows_the_board_and_who_is_on_it(node: Any) -> None:
    pytest.importorskip("nvitop")
    neighbour = busy_neighbour(node)

    told = run(node, sys.executable, "-m", "nvitop", "--once")

    assert "A100-SXM4-80GB" in told
    assert "3522MiB" in told or "3.439GiB" in told
    assert str(neighbour.pid) in told


def test_numba_s_driver_part_moves_data_and_orders_work(node: Any, tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    script = tmp_path / "arrays.py"
    script.write_text("""
import numpy as np
from numba import cuda

values = np.arange(1000, dtype=np.float32)
there = cuda.to_device(values)
stream, event = cuda.stream(), cuda.event()
back = there.copy_to_host(stream=stream)
event.record(stream)
event.synchronize()
assert (values == back).all()
with cuda.pinned(values):
    pass
print(cuda.get_current_device().name)
""")

    assert run(node, sys.executable, str(script)).strip().startswith("Simulated NVIDIA")
