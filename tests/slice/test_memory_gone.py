"""What was charged is forgotten exactly when it went: pools, primary contexts, limits of a context. Simulated board."""

from __future__ import annotations

from typing import Any

# What calls have granted: overhead comes half a second later, and stays out of it.
HELD = """
from jupyter_vgpu.client import UserClient
device = start()

def held():
    return sum(each["devices"][0]["memory_bytes"] for each in UserClient.from_environment().usage()["processes"])
"""

# A pool of the program's own with a piece of a GiB in use.
POOL = (
    HELD
    + """
props = cu.CUmemPoolProps()
props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
props.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
props.location.id = 0
SUCCESS, INVALID = cu.CUresult.CUDA_SUCCESS, cu.CUresult.CUDA_ERROR_INVALID_VALUE

def used(pool):
    return cu.cuMemPoolGetAttribute(pool, cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)[0]

def in_use():
    pool = ok(cu.cuMemPoolCreate(props))
    place = ok(cu.cuMemAllocFromPoolAsync(GIB, pool, 0))
    ok((cu.cuCtxSynchronize()[0], None))
    return pool, place
"""
)


def test_the_driver_destroys_a_pool_only_when_nothing_of_it_is_in_use(ten_gib: Any) -> None:
    """Catches a bug where an H200's driver ended the process: it was asked about a pool that it had destroyed."""
    said = ten_gib.says(
        POOL
        + """
before = held()
pool, place = in_use()
ok((cu.cuMemPoolDestroy(pool)[0], None))
# What the driver answers shows whether it has the pool.
say(used(pool) == SUCCESS, cu.cuMemPoolDestroy(pool)[0] == INVALID, held() - before == GIB)
ok((cu.cuMemFreeAsync(place, 0)[0], None))
ok((cu.cuCtxSynchronize()[0], None))
say(used(pool) == SUCCESS, held() - before)
pool, place = in_use()
ok((cu.cuMemPoolDestroy(pool)[0], None))
ok((cu.cuMemFree(place)[0], None))
say(used(pool) == SUCCESS, held() - before)
"""
    )

    assert said == ["True True True", "False 0", "False 0"]


def test_a_destroyed_pool_is_no_devices_current_one_and_keeps_nothing(ten_gib: Any) -> None:
    said = ten_gib.says(
        POOL
        + """
own = ok(cu.cuDeviceGetDefaultMemPool(0))
pool, place = in_use()
kept = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
ok((cu.cuMemPoolSetAttribute(pool, kept, cu.cuuint64_t(8 * GIB))[0], None))
more = ok(cu.cuMemAllocFromPoolAsync(GIB, pool, 0))
ok((cu.cuDeviceSetMemPool(0, pool)[0], None))
before = held()
ok((cu.cuMemPoolDestroy(pool)[0], None))
say(int(ok(cu.cuDeviceGetMemPool(0))) == int(own))
ok((cu.cuMemFreeAsync(more, 0)[0], None))
ok((cu.cuCtxSynchronize()[0], None))
say(before - held() == GIB)
say(cu.cuMemPoolDestroy(own)[0] == SUCCESS, used(own) == SUCCESS)
"""
    )

    assert said == ["True", "True", "False True"]


def test_pools_go_while_other_threads_look_at_all_of_them(ten_gib: Any) -> None:
    """Who destroys a pool waits for those who ask the driver about it."""
    said = ten_gib.says(
        POOL
        + """
import threading
done = threading.Event()
before = held()

def look():
    while not done.is_set():
        free()

threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads:
    thread.start()
for index in range(100):
    pool, place = in_use()
    if index % 2:
        ok((cu.cuMemPoolDestroy(pool)[0], None))
    ok((cu.cuMemFreeAsync(place, 0)[0], None))
    ok((cu.cuCtxSynchronize()[0], None))
    if not index % 2:
        ok((cu.cuMemPoolDestroy(pool)[0], None))
done.set()
for thread in threads:
    thread.join()
say(held() - before)
"""
    )

    assert said == ["0"]


# --- limits of a context ------------------------------------------------------------------------------------

LIMITS = (
    HELD
    + """
STACK, FIFO, HEAP = (cu.CUlimit(which) for which in range(3))

def limit(which):
    return ok(cu.cuCtxGetLimit(which))

def set_limit(which, value):
    return cu.cuCtxSetLimit(which, value)

threads = 1
for which in (16, 39):
    threads *= ok(cu.cuDeviceGetAttribute(cu.CUdevice_attribute(which), device))
MORE = {STACK: 64 * MIB // threads, FIFO: 64 * MIB, HEAP: 64 * MIB}
"""
)


def test_a_limit_of_a_context_is_charged_from_what_the_context_had_by_itself(ten_gib: Any) -> None:
    """Catches a bug where 8 MiB of an H200's buffer of printf stayed charged: it was taken to have 1 MiB by itself."""
    said = ten_gib.says(
        LIMITS
        + """
for which in (STACK, FIFO, HEAP):
    before, own, charged = held(), limit(which), []
    for value in (own + MORE[which], own, own // 2, own + MORE[which], own // 2, own):
        ok((set_limit(which, value)[0], None))
        charged.append(held() - before >> 20)
    say(charged)
"""
    )

    assert said == ["[64, 0, 0, 64, 0, 0]"] * 3


def test_a_context_that_the_driver_does_not_destroy_keeps_what_it_has(ten_gib: Any) -> None:
    """What is the context's is set apart before the driver is asked: another could be given its handle."""
    said = ten_gib.says(
        LIMITS
        + """
primary, own, before = ok(cu.cuCtxGetCurrent()), limit(HEAP), held()
ok((set_limit(HEAP, own + 64 * MIB)[0], None))
place = ok(cu.cuMemAlloc(GIB))
say(cu.cuCtxDestroy(primary)[0] == cu.CUresult.CUDA_SUCCESS, held() - before >> 20)
ok((set_limit(HEAP, own + 64 * MIB)[0], None))
say(held() - before >> 20)
ok((cu.cuDevicePrimaryCtxReset(device)[0], None))
say(held() - before)
"""
    )

    assert said == ["False 1088", "1088", "0"]


def test_each_context_has_limits_of_its_own_which_go_with_it(ten_gib: Any) -> None:
    said = ten_gib.says(
        LIMITS
        + """
ok((set_limit(HEAP, limit(HEAP) + 64 * MIB)[0], None))
before = held()
for _ in range(3):
    another = ok(cu.cuCtxCreate(None, 0, device))
    own = limit(HEAP)
    ok((set_limit(HEAP, own + 128 * MIB)[0], None))
    grown = held() - before
    ok((set_limit(HEAP, own // 2)[0], None))
    shrunk = held() - before
    ok((set_limit(HEAP, own + 128 * MIB)[0], None))
    ok((cu.cuCtxDestroy(another)[0], None))
    say(grown >> 20, shrunk >> 20, held() - before)
"""
    )

    assert said == ["128 0 0"] * 3


def test_a_limit_that_the_driver_does_not_set_is_not_charged(ten_gib: Any) -> None:
    said = ten_gib.says(
        LIMITS
        + """
before, own = held(), limit(HEAP)
say(refused(set_limit(HEAP, 64 * GIB)), limit(HEAP) == own, held() - before)
"""
    )

    assert said == ["True True 0"]


# --- primary contexts -----------------------------------------------------------------------------------------


def test_a_primary_contexts_memory_is_forgotten_with_its_last_reference(ten_gib: Any) -> None:
    """Not when one of several that retained it releases it: the memory is there still."""
    said = ten_gib.says(
        HELD
        + """
before = held()
ok(cu.cuDevicePrimaryCtxRetain(device))
place = ok(cu.cuMemAlloc(GIB))
ok((cu.cuDevicePrimaryCtxRelease(device)[0], None))
say(held() - before == GIB, ok(cu.cuDevicePrimaryCtxGetState(device))[1])
ok((cu.cuDevicePrimaryCtxRelease(device)[0], None))
say(held() - before, ok(cu.cuDevicePrimaryCtxGetState(device))[1])
"""
    )

    assert said == ["True 1", "0 0"]
