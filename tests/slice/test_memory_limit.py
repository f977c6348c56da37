"""Memory that a tenant's programs do not get past, on each way to get it. Simulated board."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

# Each allocates `size` bytes as `take(size)` and gives it back as `give(what)`.
WAYS = {
    "plain": """
        take = lambda size: cu.cuMemAlloc(size)
        give = lambda what: cu.cuMemFree(what)
    """,
    "pitched": """
        take = lambda size: (lambda a: a[:2])(cu.cuMemAllocPitch(1 << 20, size >> 20, 4))
        give = lambda what: cu.cuMemFree(what)
    """,
    "managed": """
        take = lambda size: cu.cuMemAllocManaged(size, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value)
        give = lambda what: cu.cuMemFree(what)
    """,
    "stream-ordered": """
        stream = ok(cu.cuStreamCreate(1))
        take = lambda size: cu.cuMemAllocAsync(size, stream)
        def give(what):
            answer = cu.cuMemFreeAsync(what, stream)
            ok(cu.cuStreamSynchronize(stream))
            return answer
    """,
    "stream-ordered from a pool of its own": """
        stream = ok(cu.cuStreamCreate(1))
        props = cu.CUmemPoolProps()
        props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        props.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        props.location.id = 0
        pool = ok(cu.cuMemPoolCreate(props))
        take = lambda size: cu.cuMemAllocFromPoolAsync(size, pool, stream)
        def give(what):
            answer = cu.cuMemFreeAsync(what, stream)
            ok(cu.cuStreamSynchronize(stream))
            return answer
    """,
    "virtual memory management": """
        prop = cu.CUmemAllocationProp()
        prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = 0
        take = lambda size: cu.cuMemCreate(size, prop, 0)
        give = lambda what: cu.cuMemRelease(what)
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_passes_the_limit_is_out_of_memory_and_a_free_gives_it_back(ten_gib: Any, way: str) -> None:
    said = ten_gib.says(
        "start()\n"
        + textwrap.dedent(WAYS[way])
        + textwrap.dedent("""
            before = free()
            first = ok(take(9 * GIB))
            say(refused(take(2 * GIB)))
            small = ok(take(2 * MIB))
            say(free() <= before - 9 * GIB)
            ok((give(small)[0], None)); ok((give(first)[0], None))
            say(free() == before)
            ok(take(9 * GIB))
        """)
    )

    assert said == ["True", "True", "True"]


def test_two_processes_share_one_limit(ten_gib: Any) -> None:
    first = ten_gib.start("start(); ok(cu.cuMemAlloc(6 * GIB)); say('held'); sys.stdin.readline()")
    assert first.stdout.readline() == "held\n"

    said = ten_gib.says("start(); say(refused(cu.cuMemAlloc(5 * GIB))); ok(cu.cuMemAlloc(3 * GIB)); say(free() <= GIB)")
    first.communicate("\n")

    assert said == ["True", "True"]


def test_a_killed_processs_memory_is_free_at_once(ten_gib: Any) -> None:
    """CASES 25. Nothing polls for it: once the agent has answered after the death, another may have the memory.

    How long that takes is measured by benchmarks/detection.py.
    """
    for _ in range(3):
        holder = ten_gib.start("start(); ok(cu.cuMemAlloc(9 * GIB)); say('held'); sys.stdin.readline()")
        assert holder.stdout.readline() == "held\n"
        asker = ten_gib.start("""
            start()
            say(refused(cu.cuMemAlloc(9 * GIB)))
            sys.stdin.readline()
            say(refused(cu.cuMemAlloc(9 * GIB)))
        """)
        assert asker.stdout.readline() == "True\n"

        holder.kill()
        holder.communicate()
        # The first answer may be made in the same round as the death is seen.
        for _ in range(2):
            ten_gib.usage()

        assert asker.communicate("\n")[0] == "False\n"


def test_a_whole_device_with_a_memory_limit_is_still_limited(claim: Callable[..., Any]) -> None:
    """Catches a bug where share 100 % switched the memory limit off (CASES 4)."""
    whole_time = claim(4 << 30, share="1/1")

    assert whole_time.says("start(); say(refused(cu.cuMemAlloc(5 * GIB)))") == ["True"]


def test_mapped_memory_counts_after_its_handle_is_released(claim: Callable[..., Any]) -> None:
    """Catches a bug where create, map, release of the handle made the charge vanish (CASES 8)."""
    said = claim(8 << 30).says("""
        start()
        prop = cu.CUmemAllocationProp()
        prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = 0
        mapped = []
        for _ in range(20):
            answer = cu.cuMemCreate(2 * GIB, prop, 0)
            if refused(answer):
                break
            handle = ok(answer)
            address = ok(cu.cuMemAddressReserve(2 * GIB, 0, 0, 0))
            ok((cu.cuMemMap(address, 2 * GIB, 0, handle, 0)[0], None))
            ok((cu.cuMemRelease(handle)[0], None))
            mapped.append(address)
        say(len(mapped) in (3, 4))
        for address in mapped:
            ok((cu.cuMemUnmap(address, 2 * GIB)[0], None))
        ok(cu.cuMemAlloc(7 * GIB))
    """)

    assert said == ["True"]


def test_a_context_that_goes_gives_its_memory_back(ten_gib: Any) -> None:
    said = ten_gib.says("""
        device = start()
        before = free()
        ok(cu.cuMemAlloc(6 * GIB))
        ok((cu.cuDevicePrimaryCtxReset(device)[0], None))
        ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(device))))
        say(before - free() < GIB)
    """)

    assert said == ["True"]


def test_freeing_what_was_never_seen_is_the_drivers_to_answer(ten_gib: Any) -> None:
    """Catches a bug where such a free returned -1 and leaked (CASES 28)."""
    said = ten_gib.says("""
        start()
        before = free()
        say(cu.cuMemFree(0x1234)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE)
        say(cu.cuMemFree(0)[0] == cu.CUresult.CUDA_SUCCESS)
        say(free() == before)
    """)

    assert said == ["True", "True", "True"]


def test_a_capture_is_not_disturbed_and_its_launches_are_not_counted(ten_gib: Any) -> None:
    program = ten_gib.start("""
        start()
        stream = ok(cu.cuStreamCreate(1))
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_5us"))
        launch = lambda: ok((cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)[0], None))
        for mode in cu.CUstreamCaptureMode:
            ok((cu.cuStreamBeginCapture(stream, mode)[0], None))
            for _ in range(50):
                launch()
            graph = ok(cu.cuStreamEndCapture(stream))
            executable = ok(cu.cuGraphInstantiate(graph, 0))
            ok((cu.cuGraphLaunch(executable, stream)[0], None))
        launch()
        ok((cu.cuStreamSynchronize(stream)[0], None))
        say("done")
        sys.stdin.readline()
    """)
    assert program.stdout.readline() == "done\n"

    launches = ten_gib.usage()["devices"][0]["launches"]
    program.communicate("\n")

    assert launches == 3 + 1, "one graph launch for each capture mode, and one launch after them"


def test_launches_are_counted_for_the_tenant(ten_gib: Any) -> None:
    program = ten_gib.start("""
        start()
        stream = ok(cu.cuStreamCreate(1))
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_5us"))
        for _ in range(7):
            ok((cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)[0], None))
        ok((cu.cuStreamSynchronize(stream)[0], None))
        say("done")
        sys.stdin.readline()
    """)
    assert program.stdout.readline() == "done\n"

    usage = ten_gib.usage()
    program.communicate("\n")

    assert usage["devices"][0]["launches"] == 7
    assert [process["devices"][0]["launches"] for process in usage["processes"]] == [7]
