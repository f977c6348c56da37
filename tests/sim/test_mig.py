"""MIG of a simulated board: made, used and taken apart through NVML, as nvidia-ml-py sees it."""

from __future__ import annotations

import os
from typing import Any

import pytest

PRELUDE = """
    handle = nvml()
    def code_of(call, *arguments):
        try:
            call(*arguments)
            return 0
        except pynvml.NVMLError as error:
            return error.value
    def profile(kind):
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, kind)
    def make(kind, compute=None):
        instance = pynvml.nvmlDeviceCreateGpuInstance(handle, profile(kind).id)
        if compute is not None:
            pynvml.nvmlGpuInstanceCreateComputeInstance(instance, compute)
        return instance
    def remaining(kind):
        return pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, profile(kind).id)
"""

ON = PRELUDE + "    pynvml.nvmlDeviceSetMigMode(handle, 1)\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="MIG is changed by root")


@pytest.mark.parametrize(
    ("board", "counts", "first_mib", "sms"),
    [
        ("a30", [4, 2, None, 1, None], 5952, [14, 28, None, 56, None]),
        ("a100-40", [7, 3, 2, 1, 1], 4864, [14, 28, 42, 56, 98]),
        ("a100-80", [7, 3, 2, 1, 1], 9728, [14, 28, 42, 56, 98]),
        ("h100", [7, 3, 2, 1, 1], 9856, [16, 32, 60, 64, 132]),
        ("h200", [7, 3, 2, 1, 1], 16384, [16, 32, 60, 64, 132]),
    ],
)
def test_profiles_are_the_board_s(
    make_node: Any, board: str, counts: list[int | None], first_mib: int, sms: list[int | None]
) -> None:
    told = make_node(board).run(
        PRELUDE
        + """
    infos = [profile(kind) if code_of(profile, kind) == 0 else None for kind in range(5)]
    say([[info and info.instanceCount for info in infos], infos[0].memorySizeMB,
         [info and info.multiprocessorCount for info in infos]])
    """
    )

    assert told == [counts, first_mib, sms]


def test_a_board_without_mig_says_so(make_node: Any) -> None:
    assert make_node("t4").run(
        PRELUDE
        + """
    say([code_of(pynvml.nvmlDeviceGetMigMode, handle), code_of(profile, 0),
         code_of(pynvml.nvmlDeviceSetMigMode, handle, 1)])
    """
    ) == [3, 3, 3]


def test_small_instances_fragment_a_board(node: Any) -> None:
    told = node.run(
        ON
        + """
    import ctypes
    place = pynvml.c_nvmlGpuInstancePlacement_t(start=2, size=1)
    small = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile(0).id, ctypes.byref(place))
    before = [remaining(kind) for kind in range(5)]
    refused = code_of(make, 4)
    pynvml.nvmlGpuInstanceDestroy(small)
    say([before, refused, [remaining(kind) for kind in range(5)]])
    """
    )

    assert told == [[6, 2, 1, 0, 0], 23, [7, 3, 2, 1, 1]]


def test_three_quarters_fit_on_an_a100_and_no_fourth(make_node: Any) -> None:
    assert make_node("a100-40").run(ON + "    say([code_of(make, 1) for _ in range(4)])") == [0, 0, 0, 23]


def test_an_instance_goes_only_when_nothing_uses_it(node: Any) -> None:
    node.run(ON + "    make(0, 0); say(0)")
    tenant = node.start("start(); say(ok(*cuda.cuDeviceGetName(96, 0)).split(b'\\0')[0].decode()); heard()")
    name = tenant.hear()
    find = (
        PRELUDE
        + """
    (instance,) = [pynvml.nvmlDeviceGetGpuInstanceById(handle, 1)]
    (compute,) = [pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)]
    """
    )

    busy = node.run(
        find
        + "say([code_of(pynvml.nvmlComputeInstanceDestroy, compute), code_of(pynvml.nvmlGpuInstanceDestroy, instance)])"
    )
    tenant.tell(0)
    tenant.process.wait(60)
    free = node.run(
        find
        + "say([code_of(pynvml.nvmlGpuInstanceDestroy, instance), code_of(pynvml.nvmlComputeInstanceDestroy, compute),"
        + " code_of(pynvml.nvmlGpuInstanceDestroy, instance)])"
    )

    assert name == "Simulated NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    assert busy == [19, 19]
    assert free == [19, 0, 0]


def test_a_mig_device_is_a_small_board_to_cuda_and_nvml(node: Any) -> None:
    uuids = node.run(
        ON
        + """
    make(0, 0)
    make(2, 2)
    devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index) for index in range(2)]
    say([[pynvml.nvmlDeviceGetUUID(device), pynvml.nvmlDeviceGetMemoryInfo(device).total >> 20,
          pynvml.nvmlDeviceGetAttributes(device).multiprocessorCount] for device in devices])
    """
    )
    script = """
        start()
        free, total = ok(*cuda.cuMemGetInfo())
        attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        fits = code(*cuda.cuMemAlloc(free))
        say([ok(*cuda.cuDeviceGetCount()), total >> 20, ok(*cuda.cuDeviceGetAttribute(attribute, 0)), fits,
             code(*cuda.cuMemAlloc(4 << 20))])
    """

    seen = [node.run(script, CUDA_VISIBLE_DEVICES=uuid) for uuid, _, _ in uuids]

    assert [uuid[:4] for uuid, _, _ in uuids] == ["MIG-", "MIG-"]
    assert [row[1:] for row in uuids] == [[9728, 14], [40192, 42]]
    assert seen == [[1, 9728, 14, 0, 2], [1, 40192, 42, 0, 2]]


def test_a_board_in_mig_mode_without_instances_has_no_device(node: Any) -> None:
    node.run(ON + "    say(0)")

    assert node.run("say(code(*cuda.cuInit(0)))") == 100


def test_the_mode_waits_until_nobody_uses_the_board(node: Any) -> None:
    tenant = node.start("start(); say(0); heard()")
    tenant.hear()
    script = """
    import ctypes
    status = ctypes.c_uint(99)
    result = ctypes.CDLL("libnvidia-ml.so.1").nvmlDeviceSetMigMode(handle, 1, ctypes.byref(status))
    say([result, status.value, *pynvml.nvmlDeviceGetMigMode(handle)])
    """

    busy = node.run(PRELUDE + script)
    tenant.tell(0)
    tenant.process.wait(60)

    assert busy == [0, 19, 0, 1]
    assert node.run(PRELUDE + script) == [0, 0, 1, 1]


def test_only_root_may(node: Any) -> None:
    assert node.run(
        ON
        + """
    instance = make(0)
    os.setuid(65534)
    say([code_of(pynvml.nvmlDeviceSetMigMode, handle, 0), code_of(make, 0),
         code_of(pynvml.nvmlGpuInstanceDestroy, instance)])
    """
    ) == [4, 4, 4]


def test_instances_do_not_take_each_other_s_time(node: Any) -> None:
    told = node.run(
        ON
        + """
    make(1, 1)
    make(1, 1)
    say([pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)) for index in range(2)])
    """
    )
    neighbour = node.start(
        "start(); launch(function('sim_busy_600000000us')); say(0); heard()", CUDA_VISIBLE_DEVICES=told[0]
    )
    neighbour.hear()

    milliseconds = node.run(
        """
        start()
        first, last = ok(*cuda.cuEventCreate(0)), ok(*cuda.cuEventCreate(0))
        kernel = function("sim_busy_20000us")
        ok(*cuda.cuEventRecord(first, 0))
        launch(kernel)
        ok(*cuda.cuEventRecord(last, 0))
        ok(*cuda.cuEventSynchronize(last))
        say(ok(*cuda.cuEventElapsedTime(first, last)))
        """,
        CUDA_VISIBLE_DEVICES=told[1],
    )

    assert 20 <= milliseconds < 30  # beside a neighbour on the same board it would be 43
