"""The one consistent picture of a slice: CUDA, NVML and the agent say the same. Simulated board."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def pair(two_devices: Any) -> Iterator[Any]:
    """Return a slice on two devices, 10 GiB on each."""
    held = two_devices.claim(10 << 30, devices=2)
    yield held
    held.end()


@pytest.fixture
def one_of_two(two_devices: Any) -> Iterator[Any]:
    """Return a slice on one device of two."""
    held = two_devices.claim(10 << 30)
    yield held
    held.end()


def test_cuda_nvml_and_the_agent_say_the_same(ten_gib: Any) -> None:
    program = ten_gib.start("""
        import pynvml as nvml
        device = start()
        ok(cu.cuMemAlloc(3 * GIB))
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        while ok(cu.cuMemGetInfo())[1] - free() == 3 * GIB:
            time.sleep(0.02)  # until what the context costs is known
        free_bytes, total_bytes = ok(cu.cuMemGetInfo())
        v1 = nvml.nvmlDeviceGetMemoryInfo(handle)
        v2 = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        say(total_bytes, ok(cu.cuDeviceTotalMem(device)), v1.total, v2.total)
        say(total_bytes - free_bytes, v1.used, v2.used)
        say(v1.used + v1.free, v2.used + v2.free)
        sys.stdin.readline()
    """)

    totals, used, sums = ([int(word) for word in program.stdout.readline().split()] for _ in range(3))
    agents = ten_gib.usage()["devices"][0]
    program.communicate("\n")

    assert set(totals) == {10 << 30} == {agents["memory_limit_bytes"]}
    assert set(used) == {agents["memory_used_bytes"]}
    assert set(sums) == {10 << 30}
    assert used[0] >= 3 << 30


def test_what_another_process_of_the_tenant_holds_is_in_the_picture(claim: Callable[..., Any]) -> None:
    """Catches a bug where a second process saw free = total (CASES 13)."""
    held = claim(10 << 30)
    first = held.start("start(); ok(cu.cuMemAlloc(2 * GIB)); say('held'); sys.stdin.readline()")
    second = held.start("start(); ok(cu.cuMemAlloc(3 * GIB)); say('held'); sys.stdin.readline()")
    assert [program.stdout.readline() for program in (first, second)] == ["held\n", "held\n"]

    both = int(held.says("start(); say(free())")[0])
    first.communicate("\n")
    one = int(held.says("start(); say(free())")[0])
    second.communicate("\n")

    # What contexts cost becomes known a second after they begin, so the difference is not exactly 2 GiB.
    assert both <= 5 << 30
    assert one - both >= 1 << 30


def test_tenants_see_only_their_own_processes(claim: Callable[..., Any]) -> None:
    mine, other = claim(4 << 30, tenant="alice"), claim(4 << 30, tenant="bob")
    stranger = other.start("start(); ok(cu.cuMemAlloc(GIB)); say('held'); sys.stdin.readline()")
    assert stranger.stdout.readline() == "held\n"

    said = mine.says("""
        import pynvml as nvml
        start()
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        say([row.pid for row in nvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [os.getpid()])
    """)
    stranger.communicate("\n")

    assert said == ["True"]


def test_null_outputs_are_as_the_drivers(ten_gib: Any) -> None:
    """Catches a bug where cudaMemGetInfo(NULL, ...) crashed (CASES 14)."""
    said = ten_gib.says("""
        import ctypes
        start()
        driver = ctypes.CDLL("libcuda.so.1")
        total = ctypes.c_size_t()
        say(driver.cuMemGetInfo_v2(None, ctypes.byref(total)), total.value <= 10 * GIB)
        say(driver.cuMemGetInfo_v2(None, None))
    """)

    assert said[0] in ("0 True", "1 True")
    assert said[1] in ("0", "1")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [0, 1]), ("0", [0]), ("1", [1]), ("1,0", [1, 0]), ("", []), ("7", []), ("0,7,1", [0]), ("-1", [])],
    ids=str,
)
def test_visible_devices_count_within_the_slice(pair: Any, visible: str | None, expected: list[int]) -> None:
    uuids = [device["uuid"] for device in pair.granted.claim["devices"]]
    said = pair.says(
        """
        import uuid
        answer = cu.cuInit(0)[0]
        count = ok(cu.cuDeviceGetCount()) if answer == 0 else 0
        for ordinal in range(count):
            say("GPU-" + str(uuid.UUID(bytes=bytes(ok(cu.cuDeviceGetUuid(ordinal)).bytes))))
        """,
        CUDA_VISIBLE_DEVICES=visible,
    )

    assert said == [uuids[index] for index in expected]


@pytest.mark.parametrize("nvml_first", [True, False], ids=["NVML before CUDA", "CUDA before NVML"])
def test_each_device_has_its_own_limit_and_its_own_use(pair: Any, nvml_first: bool) -> None:
    """Catches a bug where "1,0" moved usage to device 0 (CASES 11)."""
    look = "import pynvml as nvml; nvml.nvmlInit()\n"
    said = pair.says(
        (look if nvml_first else "")
        + "start(0)\n"
        + (look if not nvml_first else "")
        + """
import uuid
taken = "GPU-" + str(uuid.UUID(bytes=bytes(ok(cu.cuDeviceGetUuid(0)).bytes)))
ok(cu.cuMemAlloc(6 * GIB))
say(refused(cu.cuMemAlloc(6 * GIB)))
for index in range(nvml.nvmlDeviceGetCount()):
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    used = nvml.nvmlDeviceGetMemoryInfo(handle).used
    say((used >= 6 * GIB) == (nvml.nvmlDeviceGetUUID(handle) == taken))
start(1)
ok(cu.cuMemAlloc(6 * GIB))
""",
        CUDA_VISIBLE_DEVICES="1,0",
    )

    assert said == ["True", "True", "True"]


def test_a_device_outside_the_slice_is_not_there(one_of_two: Any, two_devices: Any) -> None:
    mine = one_of_two.granted.claim["devices"][0]["uuid"]
    other = next(device["uuid"] for device in two_devices.hub.devices() if device["uuid"] != mine)
    said = one_of_two.says(
        f"""
        import pynvml as nvml
        nvml.nvmlInit()
        say(nvml.nvmlDeviceGetCount(), nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(0)) == "{mine}")
        for look in (lambda: nvml.nvmlDeviceGetHandleByIndex(1), lambda: nvml.nvmlDeviceGetHandleByUUID("{other}")):
            try:
                look()
                say("found")
            except nvml.NVMLError as error:
                say(type(error).__name__)
        say(cu.cuInit(0)[0] == cu.CUresult.CUDA_ERROR_NO_DEVICE)
        """,
        CUDA_VISIBLE_DEVICES=other,
    )

    assert said == ["1 True", "NVMLError_InvalidArgument", "NVMLError_NotFound", "True"]


# Every form of the variable, right, wrong and odd, in the machine's own terms ({0} and {1} are its devices' UUIDs).
FORMS = [
    "0", "1", "0,1", "1,0", "", " ", ",", "0,", ",0", "0,,1", " 0 , 1 ", "0 1", "0;1", "0,0", "1,0,1", "7", "0,7,1",
    "7,0", "-1", "0,-1,1", "00", "01", "+1", "1.0", "0x1", "0x0", "1e0", "99999999999", "4294967296", "a", "0a",
    "0,a,1", "none", "all", "NoDevFiles", "{0}", "{1}", "{1},{0}", "{0},{0}", "{0},0", "0,{1}", "{0:.8}",
    "{1:.12},{0:.12}", "{0:.4}", "GPU-", "GPU", "{0},GPU-00000000-0000-0000-0000-000000000000,{1}", "{0}0",
    "MIG-00000000-0000-0000-0000-000000000000", "0,MIG-x,1", "MIG-{0}/1/0", "{0}/1/0",
]  # fmt: skip


def test_every_form_of_the_variable_means_in_a_slice_what_it_means_to_the_driver(pair: Any) -> None:
    """CASES 11. The slice has all of the machine, so the driver itself says what is right."""
    uuids = [device["uuid"] for device in pair.granted.claim["devices"]]
    forms = [form.format(*uuids) for form in FORMS] + [uuids[0].upper(), uuids[0].removeprefix("GPU-")]
    program = f"""
        import uuid
        for form in {forms!r}:
            if os.fork() == 0:
                os.environ["CUDA_VISIBLE_DEVICES"] = form
                answer = cu.cuInit(0)[0]
                count = ok(cu.cuDeviceGetCount()) if answer == 0 else 0
                seen = [str(uuid.UUID(bytes=bytes(ok(cu.cuDeviceGetUuid(each)).bytes))) for each in range(count)]
                say(repr(form), int(answer), seen, os.environ["CUDA_VISIBLE_DEVICES"] == form)
                os._exit(0)
            os.wait()
    """

    inside = pair.says(program)
    outside = pair.says(program, LD_PRELOAD=None)

    assert len(inside) == len(forms)
    assert inside == outside


def test_utilisation_is_the_slices_own(claim: Callable[..., Any]) -> None:
    """A neighbour keeps the device busy; this slice does nothing, then as much."""
    mine, other = claim(4 << 30, tenant="alice"), claim(4 << 30, tenant="bob")
    busy = """
        start()
        module = ok(cu.cuModuleLoadData(b"any text"))
        function = ok(cu.cuModuleGetFunction(module, b"sim_busy_500us"))
        stream = ok(cu.cuStreamCreate(1))
        say("busy")
        while True:
            for _ in range(8):
                ok(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
            ok(cu.cuStreamSynchronize(stream))
    """
    neighbour = other.start(busy)
    assert neighbour.stdout.readline() == "busy\n"

    looking = """
        import pynvml as nvml
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        say(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        samples = nvml.nvmlDeviceGetProcessUtilization
        try:
            say(sorted(row.pid for row in samples(handle, 0)))
        except nvml.NVMLError_NotFound:
            say([])
    """
    idle = mine.says("start()\n" + textwrap.dedent(looking))
    worker = mine.start(busy)
    assert worker.stdout.readline() == "busy\n"
    deadline = time.monotonic() + 120
    while int((working := mine.says(looking))[0]) == 0:
        assert time.monotonic() < deadline
    whole = int(mine.says(looking, LD_PRELOAD=None)[0])
    for process in (neighbour, worker):
        process.kill()

    assert idle[0] == "0"
    assert str(neighbour.pid) not in idle[1] + working[1]
    assert str(worker.pid) in working[1]
    assert 0 < int(working[0]) <= 100 and whole > 0


def test_nothing_of_the_device_is_changed_from_a_slice(ten_gib: Any) -> None:
    said = ten_gib.says("""
        import pynvml as nvml
        start()
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        for change in (
            lambda: nvml.nvmlDeviceSetPersistenceMode(handle, 1),
            lambda: nvml.nvmlDeviceSetComputeMode(handle, nvml.NVML_COMPUTEMODE_PROHIBITED),
            lambda: nvml.nvmlDeviceSetMigMode(handle, 1),
            lambda: nvml.nvmlDeviceSetPowerManagementLimit(handle, 100000),
            lambda: nvml.nvmlDeviceCreateGpuInstance(handle, 0),
        ):
            try:
                change()
                say("changed")
            except nvml.NVMLError as error:
                say(type(error).__name__)
    """)

    assert said == ["NVMLError_NoPermission"] * 5
