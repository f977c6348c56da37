"""NVML of a simulated board, as nvidia-ml-py sees it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from jupyter_vgpu.sim.faults import set_mps

# Every process is in this control group or below it.
GROUP = "/sys/fs/cgroup"


def test_what_an_inventory_asks_is_answered(node: Any) -> None:
    told = node.run("""
        handle = nvml()
        say({
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "cuda": pynvml.nvmlSystemGetCudaDriverVersion(),
            "index": pynvml.nvmlDeviceGetIndex(handle),
            "minor": pynvml.nvmlDeviceGetMinorNumber(handle),
            "mig": pynvml.nvmlDeviceGetMigMode(handle),
            "persistence": pynvml.nvmlDeviceGetPersistenceMode(handle),
            "compute": pynvml.nvmlDeviceGetComputeMode(handle),
            "cores": pynvml.nvmlDeviceGetNumGpuCores(handle),
            "ecc": pynvml.nvmlDeviceGetEccMode(handle),
            "performance": pynvml.nvmlDeviceGetPerformanceState(handle),
            "limit": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            "clocks": [pynvml.nvmlDeviceGetClockInfo(handle, kind) for kind in (0, 1, 2)],
            "total": pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        })
    """)

    assert told == {
        "driver": "580.159.04",
        "cuda": 13000,
        "index": 0,
        "minor": 0,
        "mig": [0, 0],
        "persistence": 1,
        "compute": 0,
        "cores": 6912,
        "ecc": [1, 1],
        "performance": 0,
        "limit": 400000,
        "clocks": [270, 270, 1593],  # idle: the clock is let down
        "total": 80 << 30,
    }


def test_every_way_to_a_handle_leads_to_the_same_board(make_node: Any) -> None:
    assert make_node("2xa100-80").run("""
        handle = nvml(1)
        ways = [
            pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(handle)),
            pynvml.nvmlDeviceGetHandleBySerial(pynvml.nvmlDeviceGetSerial(handle)),
            pynvml.nvmlDeviceGetHandleByPciBusId(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        ]
        say([pynvml.nvmlDeviceGetIndex(way) for way in ways])
    """) == [1, 1, 1]


def test_wrong_handles_and_names_are_errors(node: Any) -> None:
    assert node.run("""
        def code_of(call, *arguments):
            try:
                call(*arguments)
                return 0
            except pynvml.NVMLError as error:
                return error.value
        before = code_of(pynvml.nvmlDeviceGetCount)
        handle = nvml()
        say([
            before,
            code_of(pynvml.nvmlDeviceGetHandleByIndex, 1),
            code_of(pynvml.nvmlDeviceGetHandleByUUID, "GPU-0"),
            code_of(pynvml.nvmlDeviceGetFanSpeed, handle),
            code_of(pynvml.nvmlDeviceGetNvLinkState, handle, 0),
            code_of(pynvml.nvmlShutdown),
            code_of(pynvml.nvmlShutdown),
        ])
    """) == [1, 2, 6, 3, 3, 0, 1]


def test_the_list_of_processes_says_how_much_room_it_needs(node: Any) -> None:
    others = [node.start("start(); say('ready'); heard()") for _ in range(2)]
    for other in others:
        other.hear()

    result, needed, second, pids, old_pids = node.run("""
        import ctypes
        start()
        handle = nvml()
        library = ctypes.CDLL("libnvidia-ml.so.1")
        needed = ctypes.c_uint(1)
        rooms = (pynvml.c_nvmlProcessInfo_v2_t * 8)()
        result = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(needed), rooms)
        count = ctypes.c_uint(8)
        second = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), rooms)
        class Old(ctypes.Structure):
            _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]
        old, old_count = (Old * 8)(), ctypes.c_uint(8)
        library.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(old_count), old)
        mine = os.getpid()
        say([result, needed.value, second, [rooms[i].pid for i in range(count.value) if rooms[i].pid != mine],
             [old[i].pid for i in range(old_count.value) if old[i].pid != mine]])
    """)

    assert (result, needed, second) == (7, 3, 0)
    assert sorted(pids) == sorted(old_pids) == sorted(other.pid for other in others)


def test_a_process_without_a_context_is_not_listed(node: Any) -> None:
    assert (
        node.run("""
        ok(*cuda.cuInit(0))
        say(len(pynvml.nvmlDeviceGetComputeRunningProcesses(nvml())))
    """)
        == 0
    )


def test_who_is_a_client_of_an_mps_server_is_listed_as_one(node: Any) -> None:
    client = node.start("""
        start()
        handle = nvml()
        lists = ["nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
                 "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v3"]
        while True:
            say([[process.pid for process in getattr(pynvml, name)(handle)] for name in lists])
            heard()
    """)
    without = client.hear()

    set_mps(node.state, True)
    client.tell("again")

    assert without == [[], [], [], [client.pid]]
    assert client.hear() == [[client.pid]] * 4


def test_a_bare_context_shows_as_used_memory_of_its_process(node: Any) -> None:
    assert node.run("""
        start()
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(nvml())
        say([process.pid == os.getpid(), process.usedGpuMemory])
    """) == [True, 450 << 20]


def test_a_busy_board_says_so_and_who_it_is(node: Any) -> None:
    told = node.run("""
        import time
        start()
        handle = nvml()
        idle = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        kernel = function("sim_busy_2000us")
        samples = []
        while not samples or samples[-1] == 0:
            for _ in range(50):
                launch(kernel)
            ok(*cuda.cuCtxSynchronize())
            samples.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        (process,) = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
        say([idle, samples[-1], process.pid == os.getpid(), process.smUtil])
    """)

    assert told[0] == 0
    assert 0 < told[1] <= 100
    assert told[2]
    assert 0 <= told[3] <= 100


@pytest.mark.skipif(os.geteuid() != 0, reason="limits are root's to set")
def test_a_group_gets_no_more_memory_than_its_limit(node: Any) -> None:
    script = f"""
        handle = nvml()
        def limits():
            got = pynvml.c_nvmlGetMemoryLimits_v1_t(nameSpace={GROUP!r}.encode())
            pynvml.nvmlDeviceGetMemoryLimits_v1(handle, got)
            return [got.softLimit, got.hardLimit, got.currentUsed]
        def set_limits(soft, hard):
            given = pynvml.c_nvmlSetMemoryLimits_v1_t(nameSpace={GROUP!r}.encode(), softLimit=soft, hardLimit=hard)
            pynvml.nvmlDeviceSetMemoryLimits_v1(handle, given)
    """
    none = node.run(script + "    say(limits())")

    limited = node.run(
        script
        + """
        set_limits(GIB, 2 * GIB)
        start()
        fits = [code(*cuda.cuMemAlloc(GIB)), code(*cuda.cuMemAlloc(GIB))]
        left = free_bytes()
        used = limits()
        set_limits(0, pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX)
        say([fits, left, used, code(*cuda.cuMemAlloc(GIB))])
    """
    )

    assert none == [0, 2**64 - 1, 0]
    assert limited == [[0, 2], (1 << 30) - (450 << 20), [1 << 30, 2 << 30, (1 << 30) + (450 << 20)], 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="limits are root's to set")
def test_memory_limits_that_cannot_be_are_refused(node: Any) -> None:
    assert node.run("""
        handle = nvml()
        def code_of(group, soft, hard):
            try:
                given = pynvml.c_nvmlSetMemoryLimits_v1_t(nameSpace=group, softLimit=soft, hardLimit=hard)
                pynvml.nvmlDeviceSetMemoryLimits_v1(handle, given)
                return 0
            except pynvml.NVMLError as error:
                return error.value
        tries = [code_of(b"/sys/fs/cgroup", 2, 1), code_of(b"/sys/fs/cgroup", 0, 1 << 50), code_of(b"/no/such", 0, 1)]
        os.setuid(65534)
        say([*tries, code_of(b"/sys/fs/cgroup", 0, 1)])
    """) == [2, 2, 17, 4]


def test_gpm_says_how_busy_a_new_board_was(make_node: Any) -> None:
    told = make_node("h100").run("""
        import time
        start()
        handle = nvml()
        support = pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
        launch(function("sim_busy_60000000us"))
        time.sleep(0.2)
        pynvml.nvmlGpmSampleGet(handle, first)
        time.sleep(0.2)
        pynvml.nvmlGpmSampleGet(handle, second)
        get = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=2, sample1=first, sample2=second)
        get.metrics[0].metricId, get.metrics[1].metricId = 1, 2
        pynvml.nvmlGpmMetricsGet(get)
        say([support, get.metrics[0].value, get.metrics[1].value])
    """)

    support, busy, sms = told
    assert support == 1
    assert busy == pytest.approx(100, abs=1)
    assert sms == pytest.approx(100 * 4 / 132, abs=1)  # four blocks


def test_gpm_is_not_there_on_older_boards(node: Any) -> None:
    assert node.run("say(pynvml.nvmlGpmQueryDeviceSupport(nvml()).isSupportedDevice)") == 0


def test_samples_are_of_whole_windows_so_that_there_is_not_always_a_new_one(node: Any) -> None:
    assert node.run("""
        import time
        start()
        launch(function("sim_busy_600000000us"))
        handle = nvml()
        for _ in range(1000):
            (sample,) = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
            try:
                pynvml.nvmlDeviceGetProcessUtilization(handle, sample.timeStamp)
            except pynvml.NVMLError as error:
                said = error.value
                break  # unless a window ended in between, which cannot always be
        say([said, sample.timeStamp <= time.time() * 1e6])
    """) == [6, True]
