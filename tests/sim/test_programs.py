"""Programs nobody here wrote, as they come from PyPI, on a simulated node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def run(node: Any, *command: str) -> str:
    done = subprocess.run(
        command,
        env=node.environment(TERM="xterm", COLUMNS="160", LC_ALL="C.UTF-8"),
        capture_output=True,
        text=True,
        timeout=240,
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


# Of numba's own tests those of its driver part that compile nothing: for that it needs NVIDIA's compiler.
NUMBA_TESTS = (
    *("array_attr", "cuda_auto_context", "cuda_memory", "deallocations", "emm_plugins", "events", "host_alloc"),
    *("pinned", "profiler", "reset_device", "select_device", "streams"),
)


def test_numba_s_own_tests_of_its_driver_part_hold(make_node: Callable[[str], Any], tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    pytest.importorskip("filecheck")
    node = make_node("2xh200")
    names = [f"numba.cuda.tests.cudadrv.test_{name}" for name in NUMBA_TESTS]

    done = subprocess.run(
        [sys.executable, "-m", "unittest", *names],
        env=node.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    (count,) = re.findall(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert int(count) >= 50


CUDA_CORE = """
import array, ctypes
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

device = Device(0)
device.set_current()
stream = device.create_stream()
buffer = device.allocate(4000, stream=stream)
values = array.array("f", [2.0] * 1000)
stream.sync()
driver.cuMemcpyHtoD(int(buffer.handle), values.buffer_info()[0], 4000)
kernel = ObjectCode.from_ptx(b"// any text").get_kernel("scale")

def scale(where):
    launch(where, LaunchConfig(grid=8, block=128), kernel, int(buffer.handle), ctypes.c_float(3.0), ctypes.c_int(1000))

%s
event = stream.record()
stream.sync()
driver.cuMemcpyDtoH(values.buffer_info()[0], int(buffer.handle), 4000)
assert event.is_done
buffer.close(stream)
print(device.name, set(values))
"""

REPLAYED = """
builder = device.create_graph_builder()
builder.begin_building()
scale(builder)
graph = builder.end_building().complete()
builder.close()
graph.launch(stream)
graph.launch(stream)
"""


@pytest.mark.parametrize(
    ("work", "result"),
    [("scale(stream)", 6.0), (REPLAYED, 18.0)],
    ids=["on a stream", "in a graph that is launched twice"],
)
def test_cuda_core_launches_what_computes(node: Any, tmp_path: Path, work: str, result: float) -> None:
    pytest.importorskip("cuda.core")
    script = tmp_path / "scaled.py"
    script.write_text(CUDA_CORE % work)

    told = run(node, sys.executable, str(script))

    assert told.strip() == f"Simulated NVIDIA A100-SXM4-80GB {{{result}}}"
