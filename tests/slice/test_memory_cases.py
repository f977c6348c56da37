"""What went wrong in other limiters (CASES of the project), as programs in a slice. Simulated board."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY = Path(__file__).parents[2] / "benchmarks" / "memory"
PROGRAM_SECONDS = 1200.0


@pytest.fixture(scope="module")
def random_operations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled program of that name."""
    program = tmp_path_factory.mktemp("memory") / "random_operations"
    source = MEMORY / "random_operations.c"
    subprocess.run(["cc", "-O1", "-std=gnu11", "-o", program, source, "-ldl", "-lpthread"], check=True)
    return program


@pytest.fixture
def narrow(claim: Callable[..., Any]) -> Any:
    """Return a slice of 2 GiB: less than the random operations would like to have."""
    return claim(2 << 30)


@pytest.fixture
def started(narrow: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that starts any program in the narrow slice; what still runs is ended after the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*command: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(word) for word in command],
            env=narrow.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def tell(process: subprocess.Popen[str], line: str = "") -> str:
    """Send a line and return the next that the process writes."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_two_processes_that_ask_at_once_never_both_get_the_last_memory(ten_gib: Any) -> None:
    """Catches a bug where both passed the check and together exceeded the limit (CASES 6): 500 times."""
    program = """
        start()
        say("ready")
        held = None
        for line in sys.stdin:
            if line.strip() == "free":
                if held is not None:
                    ok((cu.cuMemFree(held)[0], None))
                held = None
                say("freed")
            else:
                answer = cu.cuMemAlloc(6 * GIB)
                held = None if refused(answer) else ok(answer)
                say("refused" if held is None else "held")
    """
    pair = [ten_gib.start(program) for _ in range(2)]
    assert [process.stdout.readline() for process in pair] == ["ready\n"] * 2
    outcomes = set()

    for _ in range(500):
        for process in pair:
            process.stdin.write("take\n")
            process.stdin.flush()
        outcomes.add(tuple(sorted(process.stdout.readline().strip() for process in pair)))
        assert [tell(process, "free") for process in pair] == ["freed"] * 2

    assert ("held", "held") not in outcomes
    assert ("held", "refused") in outcomes


def test_four_notebooks_of_one_tenant_share_one_limit(claim: Callable[..., Any]) -> None:
    """Catches a bug where limits were per process, so that four notebooks had four (CASES 10)."""
    # Room for three of them and for four contexts.
    shared = claim((9 << 30) + (2 << 30))
    program = "start(); answer = cu.cuMemAlloc(3 * GIB); say(refused(answer)); sys.stdin.readline()"
    said = []
    for _ in range(4):
        notebook = shared.start(program)
        said.append(notebook.stdout.readline().strip())

    assert said == ["False", "False", "False", "True"]


def _comes_back(started: Callable[..., Any], narrow: Any, program: Path, operations: int) -> None:
    process = started(program, operations, 8, 12)
    assert process.stdout.readline() == "start\n"
    before = narrow.usage()["processes"][0]["devices"][0]

    done = tell(process)
    after = narrow.usage()["processes"][0]["devices"][0]

    assert done.startswith("done: "), process.stderr.read() if process.poll() is not None else done
    taken, refused = (int(word) for word in done.replace(",", "").split() if word.isdigit())
    assert taken > operations // 4
    assert refused > 0, "the limit was never met: that tests less than it says"
    assert after["memory_bytes"] == before["memory_bytes"] == 0
    assert after["allocations"] == before["allocations"] == 0


def test_random_operations_of_all_kinds_from_eight_threads_leave_nothing_charged(
    started: Callable[..., Any], narrow: Any, random_operations: Path
) -> None:
    """Catches a bug where "17592186044134 MiB used" was shown after many async frees (CASES 12)."""
    _comes_back(started, narrow, random_operations, operations=40_000)


@pytest.mark.slow
def test_a_million_random_operations_leave_nothing_charged(
    started: Callable[..., Any], narrow: Any, random_operations: Path
) -> None:
    """CASES 12, whole."""
    _comes_back(started, narrow, random_operations, operations=1_000_000)


def test_the_total_shown_is_never_above_what_the_board_has(claim: Callable[..., Any]) -> None:
    """Catches a bug where a total above the physical size confused cuDNN (CASES 16)."""
    said = claim(79 << 30, share="1/1").says("""
        import pynvml as nvml
        nvml.nvmlInit()
        start()
        free_bytes, total_bytes = ok(cu.cuMemGetInfo())
        memory = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0))
        say(free_bytes <= total_bytes == ok(cu.cuDeviceTotalMem(0)) <= memory.total <= 80 * GIB)
        say(memory.free + memory.used <= memory.total)
    """)

    assert said == ["True", "True"]


def test_a_pool_of_another_device_is_charged_to_that_device(two_devices: Any) -> None:
    """Catches a bug of ours where a default pool's first allocation went to the current device (CASES 11)."""
    both = two_devices.claim(10 << 30, devices=2)
    program = both.start("""
        start()
        stream = ok(cu.cuStreamCreate(1))
        pool = ok(cu.cuDeviceGetDefaultMemPool(1))
        place = ok(cu.cuMemAllocFromPoolAsync(GIB, pool, stream))
        ok((cu.cuStreamSynchronize(stream)[0], None))
        say("held"); sys.stdin.readline()
    """)
    try:
        assert program.stdout.readline() == "held\n"
        ordinals = [each["memory_bytes"] for each in both.usage()["processes"][0]["devices"]]
    finally:
        both.end()

    assert ordinals == [0, 1 << 30]


def test_what_is_alive_is_counted(ten_gib: Any) -> None:
    program = ten_gib.start("""
        start()
        plain = [ok(cu.cuMemAlloc(MIB)) for _ in range(5)]
        prop = cu.CUmemAllocationProp()
        prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        handle = ok(cu.cuMemCreate(2 * MIB, prop, 0))
        stream = ok(cu.cuStreamCreate(1))
        pooled = [ok(cu.cuMemAllocAsync(MIB, stream)) for _ in range(3)]
        say("held"); sys.stdin.readline()
        ok((cu.cuMemFree(plain.pop())[0], None))
        ok((cu.cuMemRelease(handle)[0], None))
        for each in pooled:
            ok((cu.cuMemFreeAsync(each, stream)[0], None))
        ok((cu.cuStreamSynchronize(stream)[0], None))
        say("freed"); sys.stdin.readline()
    """)
    counts = []
    assert program.stdout.readline() == "held\n"
    counts.append(ten_gib.usage()["processes"][0]["devices"][0]["allocations"])
    assert tell(program) == "freed"
    counts.append(ten_gib.usage()["processes"][0]["devices"][0]["allocations"])

    assert counts == [5 + 1 + 1, 4], "pointers, handles, and each pool that has anything"


def test_who_has_nothing_left_gets_no_context_and_who_passed_the_limit_no_module(ten_gib: Any) -> None:
    """Overhead cannot be reserved; but nobody gets more of it without end (CASES 9)."""
    holder = ten_gib.start("""
        start()
        say("started"); sys.stdin.readline()
        held = []
        for size in (GIB, 64 * MIB, 2 * MIB, MIB, 4096, 512):
            while not refused(answer := cu.cuMemAlloc(size)):
                held.append(ok(answer))
        say("full"); sys.stdin.readline()
        say(refused(cu.cuCtxCreate(None, 0, 0)))
        import ctypes
        driver = ctypes.CDLL("libcuda.so.1")
        for name in ("cuGLCtxCreate", "cuGLCtxCreate_v2", "cuVDPAUCtxCreate", "cuVDPAUCtxCreate_v2"):
            say(getattr(driver, name)(ctypes.byref(ctypes.c_void_p()), 0, 0, 0, None) == 2)
        for which, more in ((3, 1), (4, 1), (5, 64), (4, -1)):
            value = ok(cu.cuCtxGetLimit(cu.CUlimit(which)))
            say(refused(cu.cuCtxSetLimit(cu.CUlimit(which), value + more)))
        sys.stdin.readline()
    """)
    assert holder.stdout.readline() == "started\n"
    assert tell(holder) == "full"

    contexts = [tell(holder), *(holder.stdout.readline().strip() for _ in range(4))]
    limits = [holder.stdout.readline().strip() for _ in range(4)]
    assert contexts == ["True"] * 5, "of the program's own, or beside OpenGL's or VDPAU's"
    assert limits == ["True", "True", "False", "False"], (
        "more levels and launches are memory; more cache and fewer launches are none"
    )
    assert ten_gib.says("""
        say(cu.cuInit(0)[0] == cu.CUresult.CUDA_SUCCESS)
        say(refused(cu.cuDevicePrimaryCtxRetain(0)))
    """) == ["True", "True"]


def test_what_the_driver_frees_with_a_green_context_is_given_back(ten_gib: Any) -> None:
    """The driver is asked which pointers it still knows: those of other contexts stay charged."""
    program = ten_gib.start("""
        device = start()
        primary = ok(cu.cuCtxGetCurrent())
        kept = ok(cu.cuMemAlloc(64 * MIB))
        whole = ok(cu.cuDeviceGetDevResource(device, cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
        parts, count, rest = ok(cu.cuDevSmResourceSplitByCount(1, whole, 0, 8))
        desc = ok(cu.cuDevResourceGenerateDesc([parts[0]], 1))
        green = ok(cu.cuGreenCtxCreate(desc, device, cu.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))
        ok((cu.cuCtxSetCurrent(ok(cu.cuCtxFromGreenCtx(green)))[0], None))
        gone = ok(cu.cuMemAlloc(128 * MIB))
        ok((cu.cuCtxSetCurrent(primary)[0], None))
        say("made"); sys.stdin.readline()
        ok((cu.cuGreenCtxDestroy(green)[0], None))
        say(cu.cuMemGetAddressRange(gone)[0] == cu.CUresult.CUDA_SUCCESS); sys.stdin.readline()
    """)

    def held() -> list[int]:
        device = ten_gib.usage()["processes"][0]["devices"][0]
        return [device["memory_bytes"] >> 20, device["allocations"]]

    assert program.stdout.readline() == "made\n"
    before = held()
    is_known = tell(program)

    assert (before, is_known, held()) == ([192, 2], "False", [64, 1])


def test_a_free_that_is_captured_gives_nothing_back_before_its_graph_runs(ten_gib: Any) -> None:
    """Catches a bug of ours where it was taken for a free at once."""
    program = ten_gib.start("""
        start()
        stream = ok(cu.cuStreamCreate(1))
        place = ok(cu.cuMemAlloc(64 * MIB))
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        ok((cu.cuStreamBeginCapture(stream, mode)[0], None))
        cu.cuMemFreeAsync(place, stream)
        cu.cuStreamEndCapture(stream)
        say("captured"); sys.stdin.readline()
        ok((cu.cuMemFree(place)[0], None))
        say("freed"); sys.stdin.readline()
    """)
    assert program.stdout.readline() == "captured\n"
    held = [ten_gib.usage()["processes"][0]["devices"][0]["memory_bytes"]]
    assert tell(program) == "freed"
    held.append(ten_gib.usage()["processes"][0]["devices"][0]["memory_bytes"])

    assert held == [64 << 20, 0]


GRAPHS = """
    def not_executable(size):
        graph = ok(cu.cuGraphCreate(0))
        params = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
        params.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        params.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        params.bytesize = size
        made = ok(cu.cuGraphAddMemAllocNode(graph, [], 0, params))
        node = made[0] if isinstance(made, tuple) else made
        return graph, ok(cu.cuGraphMemAllocNodeGetParams(node)).dptr

    def with_memory(size):
        graph, address = not_executable(size)
        return ok(cu.cuGraphInstantiate(graph, 0)), address

    def launch(executable):
        answer = cu.cuGraphLaunch(executable, 0)
        ok((cu.cuCtxSynchronize()[0], None))
        return answer

    start()
"""


def test_memory_that_graphs_keep_unused_makes_room_for_what_needs_it(ten_gib: Any) -> None:
    said = ten_gib.says(
        GRAPHS
        + """
    first, address = with_memory(6 * GIB)
    ok((launch(first)[0], None))
    say(refused(cu.cuMemAlloc(6 * GIB)))
    ok((cu.cuMemFree(address)[0], None))
    place = ok(cu.cuMemAlloc(6 * GIB))
    say(refused(launch(first)))
    ok((cu.cuMemFree(place)[0], None))
    ok((launch(first)[0], None))
    say(refused(cu.cuMemAlloc(6 * GIB)))
    """
    )

    assert said == ["True"] * 3


def test_a_graph_that_is_launched_again_needs_no_more_room(ten_gib: Any) -> None:
    """Catches a mistake that is easily made: to reserve at each launch what the graph has already."""
    said = ten_gib.says(
        GRAPHS
        + """
    executable, address = with_memory(6 * GIB)
    for _ in range(3):
        ok((launch(executable)[0], None))
        ok((cu.cuMemFree(address)[0], None))
    other, _ = with_memory(3 * GIB)
    ok((launch(other)[0], None))
    say(refused(cu.cuMemAlloc(8 * GIB)))
    """
    )

    assert said == ["True"]


def test_graphs_in_graphs_are_reserved_however_deep_they_lie(ten_gib: Any) -> None:
    """Catches a bug of ours where those deeper than eight took what they needed, and were charged afterwards."""
    said = ten_gib.says(
        GRAPHS
        + """
    graph, _ = not_executable(6 * GIB)
    for _ in range(20):
        outer = ok(cu.cuGraphCreate(0))
        ok(cu.cuGraphAddChildGraphNode(outer, [], 0, graph))
        graph = outer
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    place = ok(cu.cuMemAlloc(6 * GIB))
    say(refused(launch(executable)))
    ok((cu.cuMemFree(place)[0], None))
    say(refused(launch(executable)))
    """
    )

    assert said == ["True", "False"]


def test_a_graph_that_is_uploaded_when_it_is_made_executable_is_reserved_before(ten_gib: Any) -> None:
    said = ten_gib.says(
        GRAPHS
        + """
    from jupyter_vgpu.client import UserClient
    graph, _ = not_executable(6 * GIB)
    wishes = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    wishes.flags = int(cu.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
    place = ok(cu.cuMemAlloc(6 * GIB))
    say(refused(cu.cuGraphInstantiateWithParams(graph, wishes)))
    ok((cu.cuMemFree(place)[0], None))
    executable = ok(cu.cuGraphInstantiateWithParams(graph, wishes))
    usage = UserClient.from_environment().usage()
    say(usage["processes"][0]["devices"][0]["memory_bytes"] >> 30)
    # It has what it needs.
    place = ok(cu.cuMemAlloc(3 * GIB))
    ok((launch(executable)[0], None))
    """
    )

    assert said == ["True", "6"]
