"""Whose memory an allocation takes that names no pool: a device's pool may change at any time. Simulated board."""

from __future__ import annotations

from typing import Any

import pytest

# Allocations of the device's pool and of one of the program's own; `grown` gives by how much the charge has grown.
PROGRAM = """
from jupyter_vgpu.client import UserClient
start()
stream = ok(cu.cuStreamCreate(1))
location = cu.CUmemLocation()
location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
location.id = 0
props = cu.CUmemPoolProps()
pinned = props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
props.location = location

def held():
    return sum(each["devices"][0]["memory_bytes"] for each in UserClient.from_environment().usage()["processes"])

def grown(size):
    before = held()
    place = ok(cu.cuMemAllocAsync(size, stream))
    return (held() - before) // MIB

def set_by_device(pool):
    ok((cu.cuDeviceSetMemPool(0, pool)[0], None))

def set_by_location(pool):
    ok((cu.cuMemSetMemPool(location, pinned, pool)[0], None))

own = ok(cu.cuDeviceGetDefaultMemPool(0))
pool = ok(cu.cuMemPoolCreate(props))
"""


@pytest.mark.parametrize("setter", ["set_by_device", "set_by_location"])
def test_an_allocation_is_charged_by_the_pool_that_its_device_was_given_last(ten_gib: Any, setter: str) -> None:
    """The driver is not asked at each allocation which pool that is: who sets another is heard."""
    said = ten_gib.says(
        PROGRAM
        + f"""
say(grown(256 * MIB))
{setter}(pool)
say(grown(512 * MIB))
{setter}(own)
say(grown(GIB))
"""
    )

    assert said == ["256", "512", "1024"]


@pytest.mark.parametrize("in_use", [True, False], ids=["some of it in use", "nothing of it in use"])
def test_when_a_devices_pool_is_destroyed_its_own_is_charged_again(ten_gib: Any, in_use: bool) -> None:
    said = ten_gib.says(
        PROGRAM
        + f"""
set_by_device(pool)
place = ok(cu.cuMemAllocAsync(256 * MIB, stream))
if not {in_use}:
    ok((cu.cuMemFreeAsync(place, stream)[0], None))
    ok((cu.cuStreamSynchronize(stream)[0], None))
ok((cu.cuMemPoolDestroy(pool)[0], None))
say(grown(GIB))
"""
    )

    assert said == ["1024"]


def test_memory_of_a_pool_that_is_freed_at_once_is_given_back_when_the_host_waits(ten_gib: Any) -> None:
    """Catches a bug of ours where only a free in stream order was looked for."""
    said = ten_gib.says(
        PROGRAM
        + """
before = held()
place = ok(cu.cuMemAllocAsync(GIB, stream))
ok((cu.cuStreamSynchronize(stream)[0], None))
ok((cu.cuMemFree(place)[0], None))
ok((cu.cuCtxSynchronize()[0], None))
say(held() - before)
"""
    )

    assert said == ["0"]


# --- pools at other places than a device ----------------------------------------------------------------------

ELSEWHERE = (
    PROGRAM
    + """
Place, Kind = cu.CUmemLocationType, cu.CUmemAllocationType

def pool_at(place, kind=pinned):
    at = cu.CUmemPoolProps()
    at.allocType = kind
    at.location.type = place
    return ok(cu.cuMemPoolCreate(at))

def taken(pool, size):
    before = held()
    answer = cu.cuMemAllocFromPoolAsync(size, pool, stream)
    return "refused" if refused(answer) else (ok(answer), held() - before)[1] // MIB
"""
)


@pytest.mark.parametrize(
    "place",
    [
        "Place.CU_MEM_LOCATION_TYPE_NONE, Kind.CU_MEM_ALLOCATION_TYPE_MANAGED",
        "Place.CU_MEM_LOCATION_TYPE_HOST, Kind.CU_MEM_ALLOCATION_TYPE_MANAGED",
        "Place.CU_MEM_LOCATION_TYPE_DEVICE, Kind.CU_MEM_ALLOCATION_TYPE_MANAGED",
        "Place.CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN",
    ],
    ids=["managed, nowhere", "managed, on the host", "managed, on the device", "a part of the device"],
)
def test_what_may_be_on_the_device_is_charged_wherever_its_pool_is(ten_gib: Any, place: str) -> None:
    """Catches a bug of ours where every pool that was not a whole device's was taken for the host's."""
    said = ten_gib.says(
        ELSEWHERE
        + f"""
pool = pool_at({place})
say(taken(pool, 3 * GIB), taken(pool, 7 * GIB))
"""
    )

    assert said == ["3072 refused"]


@pytest.mark.parametrize(
    "pool",
    [
        "pool_at(Place.CU_MEM_LOCATION_TYPE_HOST)",
        "pool_at(Place.CU_MEM_LOCATION_TYPE_HOST_NUMA)",
        "ok(cu.cuMemGetDefaultMemPool(location, pinned))",
    ],
    ids=["made", "made at a node", "the host's own"],
)
def test_memory_of_the_hosts_pools_is_charged_to_no_device(ten_gib: Any, pool: str) -> None:
    """Catches a bug of ours where the host's own pool was the current device's."""
    said = ten_gib.says(
        ELSEWHERE
        + f"""
location.type = Place.CU_MEM_LOCATION_TYPE_HOST
pool = {pool}
say(taken(pool, GIB), taken(pool, 20 * GIB))
"""
    )

    assert said == ["0 0"]


def test_pools_that_nothing_can_be_taken_from_keep_no_place(ten_gib: Any) -> None:
    """Catches a bug of ours where a pool was noted before it gave anything: 128 imported ones filled up."""
    said = ten_gib.says(
        ELSEWHERE
        + """
descriptor = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
props.handleTypes = descriptor
shared = ok(cu.cuMemPoolCreate(props))
fd = ok(cu.cuMemPoolExportToShareableHandle(shared, descriptor, 0))
answers = set()
for _ in range(200):
    imported = ok(cu.cuMemPoolImportFromShareableHandle(fd, descriptor, 0))
    answers.add(cu.cuMemAllocFromPoolAsync(MIB, imported, stream)[0])
say(answers == {cu.CUresult.CUDA_ERROR_INVALID_VALUE}, taken(pool, GIB))
"""
    )

    assert said == ["True 1024"]
