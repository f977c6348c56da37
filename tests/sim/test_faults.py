"""Boards that fail on command: what real clients are told then."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.sim import faults

WORKER = """
    start()
    kernel = function("sim_busy_10us")
    say("ready")
    while heard() == "go":
        launched = code(*cuda.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, 0, 0, 0))
        say([launched, code(*cuda.cuCtxSynchronize()), code(*cuda.cuMemAlloc(1 << 20))])
"""

NVML_CODES = """
    def code_of(call, *arguments):
        try:
            call(*arguments)
            return 0
        except pynvml.NVMLError as error:
            return error.value
"""


def worker(node: Any) -> Any:
    client = node.start(WORKER)
    assert client.hear() == "ready"
    return client


def ask(client: Any) -> Any:
    client.tell("go")
    return client.hear()


def test_a_board_that_fell_off_the_bus_answers_nobody(node: Any) -> None:
    before = worker(node)
    healthy = ask(before)

    faults.raise_xid(node.state, faults.XID_LOST)

    assert healthy == [0, 0, 0]
    assert ask(before) == [999, 999, 999]
    assert node.run(NVML_CODES + "    handle = nvml(); say(code_of(pynvml.nvmlDeviceGetMemoryInfo, handle))") == 15
    assert node.run("say(code(*cuda.cuInit(0)))") == 100


def test_a_lost_board_says_nothing_of_why(node: Any) -> None:
    before = worker(node)
    ask(before)

    faults.lose(node.state)

    assert ask(before) == [999, 999, 999]
    assert node.run(
        NVML_CODES
        + """
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    events = pynvml.nvmlEventSetCreate()
    say([code_of(pynvml.nvmlDeviceGetTemperature, handle, 0), code_of(pynvml.nvmlEventSetWait_v2, events, 1)])
    """
    ) == [15, 10]


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        pytest.param(lambda state, pid: faults.raise_xid(state, 31, pid=pid), 700, id="an illegal address"),
        pytest.param(lambda state, pid: faults.raise_xid(state, 43, pid=pid), 719, id="a launch that was stopped"),
        pytest.param(
            lambda state, pid: faults.add_ecc_errors(state, uncorrected=1), 214, id="an uncorrected memory error"
        ),
    ],
)
def test_a_broken_context_stays_broken_and_a_new_process_is_well(
    node: Any, fault: Callable[[Any, int], None], result: int
) -> None:
    client = worker(node)
    ask(client)

    fault(node.state, client.pid)

    assert ask(client) == [result] * 3
    assert ask(client) == [result] * 3
    assert ask(worker(node)) == [0, 0, 0]


def test_an_xid_of_one_process_leaves_its_neighbour_alone(node: Any) -> None:
    hit, neighbour = worker(node), worker(node)

    faults.raise_xid(node.state, 31, pid=hit.pid)

    assert (ask(hit), ask(neighbour)) == ([700] * 3, [0] * 3)


def test_nvml_tells_of_an_xid_as_an_event(node: Any) -> None:
    client = node.start("""
        handle = nvml()
        events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        say("ready")
        event = pynvml.nvmlEventSetWait_v2(events, 20000)
        try:
            pynvml.nvmlEventSetWait_v2(events, 1)
            again = 0
        except pynvml.NVMLError as error:
            again = error.value
        say([event.eventType, event.eventData, again])
    """)
    client.hear()

    faults.raise_xid(node.state, 43)

    assert client.hear() == [8, 43, 10]


def test_memory_errors_are_counted(node: Any) -> None:
    faults.add_ecc_errors(node.state, corrected=3, uncorrected=1)

    assert node.run("""
        handle = nvml()
        say([pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, 0) for kind in (0, 1)]
            + list(pynvml.nvmlDeviceGetRemappedRows(handle)))
    """) == [3, 1, 0, 1, 1, 0]


def test_a_hot_board_says_so_and_slows_its_clock(node: Any) -> None:
    script = """
        handle = nvml()
        say([pynvml.nvmlDeviceGetTemperature(handle, 0), pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
             pynvml.nvmlDeviceGetClockInfo(handle, 1)])
    """
    cool = node.run(script)

    faults.heat(node.state, 93)

    assert cool == [30, 1, 270]
    assert node.run(script) == [93, 0x61, 705]


def test_a_stalled_nvml_answers_later(node: Any) -> None:
    start = time.monotonic()
    faults.stall_nvml(node.state, 1.5)

    node.run("say(pynvml.nvmlDeviceGetMemoryInfo(nvml()).total)")

    assert time.monotonic() - start >= 1.4


def test_rows_that_cannot_be_true_appear_and_go(node: Any) -> None:
    script = "say([process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(nvml())])"
    faults.set_absurd(node.state, True)
    absurd = node.run(script)

    faults.set_absurd(node.state, False)

    assert (absurd, node.run(script)) == ([1920151404], [])


def test_utilisation_that_counts_the_turns_of_others_too(node: Any) -> None:
    busy = """
        start()
        launch(function("sim_busy_600000000us"))
        say("ready")
        heard()
    """
    neighbours = [node.start(busy) for _ in range(2)]
    assert [neighbour.hear() for neighbour in neighbours] == ["ready", "ready"]
    # A window of 134 ms must have passed in which both were busy: asked until it has.
    script = """
        import time
        handle, figures = nvml(), []
        until = time.monotonic() + 90
        while time.monotonic() < until and not (len(figures) == 2 and LEAST <= min(figures) <= max(figures) <= MOST):
            time.sleep(0.05)
            try:
                figures = [sample.smUtil for sample in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)]
            except pynvml.NVMLError:
                figures = []
        say(figures)
    """
    right = node.run(script.replace("LEAST", "40").replace("MOST", "55"))

    faults.set_generous(node.state, True)

    wrong = node.run(script.replace("LEAST", "80").replace("MOST", "100"))
    assert all(40 <= figure <= 55 for figure in right)
    assert all(80 <= figure <= 100 for figure in wrong)


def test_the_nth_allocation_fails_and_only_that(node: Any) -> None:
    faults.fail_allocation(node.state, 3)

    assert node.run("start(); say([code(*cuda.cuMemAlloc(1 << 20)) for _ in range(5)])") == [0, 0, 2, 0, 0]


def test_an_older_driver_lacks_what_came_later(node: Any) -> None:
    faults.set_driver_version(node.state, 11040, "470.82.01")

    assert node.run("""
        import ctypes
        library = ctypes.CDLL("libcuda.so.1")
        pointer, status = ctypes.c_void_p(), ctypes.c_int(9)
        def ask(name, version):
            result = library.cuGetProcAddress_v2(
                name, ctypes.byref(pointer), version, ctypes.c_uint64(0), ctypes.byref(status))
            return [result, pointer.value is None]
        version = ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(version))
        nvml()
        say([version.value, ask(b"cuInit", 11040), ask(b"cuInit", 12000), ask(b"cuLaunchKernelEx", 11040),
             pynvml.nvmlSystemGetDriverVersion()])
    """) == [11040, [0, False], [1, False], [0, True], "470.82.01"]


def test_a_function_can_be_missing(node: Any) -> None:
    faults.remove_function(node.state, "cuMemAllocAsync")
    faults.remove_function(node.state, "nvmlDeviceGetMemoryInfo")

    told = node.run(
        NVML_CODES
        + """
    import ctypes
    library = ctypes.CDLL("libcuda.so.1")
    pointer, status = ctypes.c_void_p(), ctypes.c_int(9)
    out = ctypes.byref(pointer), 12000, ctypes.c_uint64(0), ctypes.byref(status)
    library.cuGetProcAddress_v2(b"cuMemAllocAsync", *out)
    handle = nvml()
    say([pointer.value, status.value, code_of(pynvml.nvmlDeviceGetMemoryInfo, handle),
         code_of(pynvml.nvmlDeviceGetTemperature, handle, 0)])
    """
    )

    assert told == [None, 1, 13, 0]


def test_faults_end_when_they_are_cleared(node: Any) -> None:
    faults.lose(node.state)
    faults.remove_function(node.state, "cuMemAlloc")
    faults.set_driver_version(node.state, 11000, "450.80.02")

    faults.clear(node.state)

    assert node.run("start(); say([code(*cuda.cuMemAlloc(1 << 20)), pynvml.nvmlDeviceGetTemperature(nvml(), 0)])") == [
        0,
        30,
    ]


def test_the_command_line_does_the_same(node: Any) -> None:
    command = [sys.executable, "-m", "jupyter_vgpu.sim", "--state", str(node.state)]
    for arguments in (["fault", "thermal", "91"], ["fault", "allocation", "1"], ["mps", "on"]):
        subprocess.run([*command, *arguments], check=True)

    refused = subprocess.run([*command, "--board", "3", "fault", "lost"], capture_output=True, text=True, check=False)

    assert node.run("start(); say([code(*cuda.cuMemAlloc(1 << 20)), pynvml.nvmlDeviceGetTemperature(nvml(), 0)])") == [
        2,
        91,
    ]
    assert refused.returncode == 2
    assert refused.stderr == "board: 3 is not allowed; boards 0 to 0 of this node are\n"


def test_the_command_line_says_which_board_it_means(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jupyter_vgpu.sim", "--state", str(tmp_path / "state")]

    unknown = subprocess.run([*command, "create", "a1000"], capture_output=True, text=True, check=False)
    subprocess.run([*command, "create", "2xt4"], check=True)
    subprocess.run([*command, "--board", "1", "mps", "on"], check=True)

    assert unknown.stderr.startswith("boards: 'a1000' is not allowed; known boards are a100-40, ")
    with faults.open_node(tmp_path / "state") as made:
        assert [made.get(board, "is_mps") for board in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda state: faults.raise_xid(state, -1), id="xid"),
        pytest.param(lambda state: faults.raise_xid(state, 31, pid=-1), id="pid"),
        pytest.param(lambda state: faults.add_ecc_errors(state, corrected=-1), id="corrected"),
        pytest.param(lambda state: faults.add_ecc_errors(state, uncorrected=2**40), id="uncorrected"),
        pytest.param(lambda state: faults.heat(state, 1000), id="celsius"),
        pytest.param(lambda state: faults.stall_nvml(state, float("nan")), id="seconds"),
        pytest.param(lambda state: faults.stall_nvml(state, -5), id="seconds below zero"),
        pytest.param(lambda state: faults.fail_allocation(state, -1), id="nth"),
        pytest.param(lambda state: faults.set_driver_version(state, -1, "470.82.01"), id="cuda_version"),
        pytest.param(lambda state: faults.set_driver_version(state, 0, "470.82.01"), id="cuda_version of none"),
        pytest.param(lambda state: faults.set_driver_version(state, 11041, "470.82.01"), id="cuda_version between two"),
        pytest.param(lambda state: faults.set_driver_version(state, 11040, "4" * 100), id="driver_version"),
        pytest.param(lambda state: faults.remove_function(state, ""), id="function"),
        pytest.param(lambda state: faults.remove_function(state, "cuMemAllocAsink"), id="function that is none"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_and_changes_nothing(node: Any, fault: Callable[[Any], None]) -> None:
    before = node.state.read_bytes()[:200_000]

    with pytest.raises(BadValueError, match="is not allowed; a "):
        fault(node.state)

    assert node.state.read_bytes()[:200_000] == before


def test_what_is_no_state_file_is_refused(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("something else")

    with pytest.raises(BadValueError, match="the state file of simulated boards is"):
        faults.lose(tmp_path / "file")
