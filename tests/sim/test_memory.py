"""Memory of a simulated board: what is taken, refused, given back, and by whom."""

from __future__ import annotations

import os
import signal
from typing import Any

GIB = 1 << 30
MIB = 1 << 20


def test_what_is_freed_is_there_again(node: Any) -> None:
    before, held, after = node.run("""
        start()
        before = free_bytes()
        place = ok(*cuda.cuMemAlloc(9 * GIB))
        held = free_bytes()
        ok(*cuda.cuMemFree(place))
        say([before, held, free_bytes()])
    """)

    assert before - held == 9 * GIB
    assert after == before


def test_more_than_is_left_is_out_of_memory_and_the_next_small_allocation_works(node: Any) -> None:
    first, refused, small = node.run("""
        start()
        first = code(*cuda.cuMemAlloc(70 * GIB))
        refused = code(*cuda.cuMemAlloc(10 * GIB))
        say([first, refused, code(*cuda.cuMemAlloc(MIB))])
    """)

    assert (first, refused, small) == (0, 2, 0)


def test_memory_costs_the_host_nothing_until_it_is_touched(node: Any) -> None:
    grown_by = node.run("""
        import resource
        start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ok(*cuda.cuMemAlloc(60 * GIB))
        say((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    """)

    assert grown_by < 64 * MIB


def test_small_allocations_share_what_the_device_hands_out(node: Any) -> None:
    taken = node.run("""
        start()
        before = free_bytes()
        for _ in range(2000):
            ok(*cuda.cuMemAlloc(1000))
        say(before - free_bytes())
    """)

    assert taken == 2 * MIB


def test_two_processes_together_get_no_more_than_the_board_has(node: Any) -> None:
    holder = node.start("""
        start()
        ok(*cuda.cuMemAlloc(45 * GIB))
        say("held")
        heard()
    """)
    holder.hear()

    refused, granted, free = node.run("""
        start()
        refused, granted = code(*cuda.cuMemAlloc(45 * GIB)), code(*cuda.cuMemAlloc(30 * GIB))
        say([refused, granted, free_bytes()])
    """)

    assert (refused, granted) == (2, 0)
    assert free < 5 * GIB


def test_a_killed_process_holds_nothing_from_that_moment_on(node: Any) -> None:
    victim = node.start("""
        start()
        ok(*cuda.cuMemAlloc(70 * GIB))
        say("held")
        heard()
    """)
    victim.hear()

    os.kill(victim.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet fetched by its parent
    result, processes = node.run("""
        start()
        result = code(*cuda.cuMemAlloc(70 * GIB))
        say([result, [each.pid == os.getpid() for each in pynvml.nvmlDeviceGetComputeRunningProcesses(nvml())]])
    """)

    assert result == 0
    assert processes == [True]


def test_a_process_that_ends_leaves_nothing(node: Any) -> None:
    node.run("start(); ok(*cuda.cuMemAlloc(70 * GIB)); say(0)")

    used = node.run("say(pynvml.nvmlDeviceGetMemoryInfo(nvml(), version=pynvml.nvmlMemory_v2).used)")

    assert used == 0


def test_cuda_and_nvml_tell_the_same_story(node: Any) -> None:
    told = node.run("""
        start()
        ok(*cuda.cuMemAlloc(9 * GIB))
        handle = nvml()
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        old = pynvml.nvmlDeviceGetMemoryInfo(handle)
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        free, total = ok(*cuda.cuMemGetInfo())
        say({
            "free": [free, info.free, old.free],
            "total": [total, ok(*cuda.cuDeviceTotalMem(0)), info.total - info.reserved],
            "used": [total - free, info.used, process.usedGpuMemory, old.used - info.reserved],
            "sums": [info.reserved + info.used + info.free == info.total, old.used + old.free == old.total],
            "pid": process.pid == os.getpid(),
        })
    """)

    assert len(set(told["free"])) == 1
    assert len(set(told["total"])) == 1
    assert len(set(told["used"])) == 1
    assert told["used"][0] == 9 * GIB + 450 * MIB  # the context
    assert told["sums"] == [True, True]
    assert told["pid"]


def test_a_forked_child_cannot_use_the_driver_and_takes_nothing_from_its_parent(node: Any) -> None:
    answers, before, after = node.run("""
        start()
        ok(*cuda.cuMemAlloc(GIB))
        before = free_bytes()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            answers = [code(*cuda.cuInit(0)), code(*cuda.cuMemAlloc(GIB)), code(*cuda.cuMemGetInfo())]
            os.write(writing, json.dumps(answers).encode())
            sys.exit(0)
        os.waitpid(child, 0)
        say([json.loads(os.read(reading, 100)), before, free_bytes()])
    """)

    assert answers == [3, 3, 3]
    assert before == after


def test_a_child_forked_before_cuinit_is_a_process_like_any_other(node: Any) -> None:
    used = node.run("""
        child = os.fork()
        start()
        ok(*cuda.cuMemAlloc(GIB))
        if child == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
        used = pynvml.nvmlDeviceGetMemoryInfo(nvml(), version=pynvml.nvmlMemory_v2).used
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        say(used)
    """)

    assert used == 2 * (GIB + 450 * MIB)


def test_a_pool_keeps_up_to_its_threshold_and_gives_the_rest_back_at_a_synchronisation(node: Any) -> None:
    told = node.run("""
        start()
        before = free_bytes()
        stream = ok(*cuda.cuStreamCreate(1))
        pool = ok(*cuda.cuDeviceGetDefaultMemPool(0))
        attribute = cuda.CUmemPool_attribute
        def figure(name):
            return int(ok(*cuda.cuMemPoolGetAttribute(pool, getattr(attribute, "CU_MEMPOOL_ATTR_" + name))))
        place = ok(*cuda.cuMemAllocAsync(100 * MIB, stream))
        held = [figure("USED_MEM_CURRENT"), figure("RESERVED_MEM_CURRENT")]
        ok(*cuda.cuMemFreeAsync(place, stream))
        freed = [figure("USED_MEM_CURRENT"), figure("RESERVED_MEM_CURRENT"), figure("USED_MEM_HIGH")]
        ok(*cuda.cuStreamSynchronize(stream))
        synchronised = before - free_bytes()
        ok(*cuda.cuMemPoolSetAttribute(pool, attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, cuda.cuuint64_t(GIB)))
        ok(*cuda.cuMemFreeAsync(ok(*cuda.cuMemAllocAsync(100 * MIB, stream)), stream))
        ok(*cuda.cuStreamSynchronize(stream))
        kept = before - free_bytes()
        ok(*cuda.cuMemPoolTrimTo(pool, 0))
        say([held, freed, synchronised, kept, before - free_bytes()])
    """)

    assert told == [[100 * MIB] * 2, [0, 100 * MIB, 100 * MIB], 0, 100 * MIB, 0]


def test_what_a_pool_keeps_unused_makes_way_for_others(node: Any) -> None:
    result = node.run("""
        start()
        pool = ok(*cuda.cuDeviceGetDefaultMemPool(0))
        threshold = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        ok(*cuda.cuMemPoolSetAttribute(pool, threshold, cuda.cuuint64_t(100 * GIB)))
        ok(*cuda.cuMemFreeAsync(ok(*cuda.cuMemAllocAsync(60 * GIB, 0)), 0))
        say(code(*cuda.cuMemAlloc(60 * GIB)))
    """)

    assert result == 0


def test_an_allocation_of_nothing_in_the_order_of_streams_is_none(node: Any) -> None:
    """As a driver 580.159.04 answers (benchmarks/results/calls-2026-11-30-nvidia-h200.json)."""
    assert node.run("""
        start()
        before = free_bytes()
        place, host = ok(*cuda.cuMemAllocAsync(0, 0)), ok(*cuda.cuMemAllocHost(0))
        results = [code(*cuda.cuMemFreeAsync(place, 0)), code(*cuda.cuMemFreeHost(host))]
        say([int(place), results, before - free_bytes(), code(*cuda.cuMemAlloc(0))])
    """) == [0, [0, 0], 0, 1]


def test_a_destroyed_context_takes_its_memory_with_it(node: Any) -> None:
    before, after = node.run("""
        start()
        before = free_bytes()
        context = ok(*cuda.cuCtxCreate(None, 0, 0))
        ok(*cuda.cuMemAlloc(GIB))
        ok(*cuda.cuCtxDestroy(context))
        say([before, free_bytes()])
    """)

    assert before == after


def test_a_context_that_does_not_fit_is_out_of_memory(node: Any) -> None:
    holder = node.start("""
        start()
        ok(*cuda.cuMemAlloc(free_bytes()))
        say("full")
        heard()
    """)
    holder.hear()

    assert node.run("ok(*cuda.cuInit(0)); say(code(*cuda.cuDevicePrimaryCtxRetain(0)))") == 2
