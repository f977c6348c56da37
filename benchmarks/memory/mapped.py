"""Virtual memory management, arrays, and memory in multicast objects."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from driver import (
    INVALID_VALUE,
    MIB,
    Driver,
    DriverError,
    allocation_properties,
    array_shape,
    array_shape_3d,
    array_shape_3d_v1,
    array_shape_v1,
    tile,
    whole,
)
from ways import Give, Take, Ways

MAPPED = Ways()
VMM = "virtual memory management"


def create(driver: Driver, size: int, shareable: bool = False, for_tiles: bool = False) -> int:
    """Return a handle of physical memory."""
    return driver.out("cuMemCreate", size, allocation_properties(shareable, for_tiles), 0)


def map_in(driver: Driver, handle: int, size: int) -> int:
    """Return the address at which the memory of `handle` is mapped now."""
    address = driver.out("cuMemAddressReserve", size, 0, 0, 0)
    driver.call("cuMemMap", address, size, 0, handle, 0)
    return address


def unmap(driver: Driver, address: int, size: int) -> None:
    """Undo `map_in`."""
    driver.call("cuMemUnmap", address, size)
    driver.call("cuMemAddressFree", address, size)


def release(driver: Driver, handle: int) -> None:
    """Release one reference of a handle."""
    driver.call("cuMemRelease", handle)


MAPPED.add(VMM, "created", "cuMemCreate cuMemRelease", release)(create)


@MAPPED.add(
    VMM,
    "mapped, its handle released",
    "cuMemCreate cuMemMap cuMemRelease cuMemUnmap",
    lambda driver, taken: unmap(driver, *taken),
)
def _mapped(driver: Driver, size: int) -> tuple[int, int]:
    handle = create(driver, size)
    address = map_in(driver, handle, size)
    release(driver, handle)
    return address, size


@MAPPED.add(
    VMM,
    "unmapped, but retained by its address",
    "cuMemCreate cuMemMap cuMemRetainAllocationHandle cuMemUnmap cuMemRelease",
    release,
)
def _retained(driver: Driver, size: int) -> int:
    address, size = _mapped(driver, size)
    handle = driver.out("cuMemRetainAllocationHandle", ctypes.c_void_p(address))
    unmap(driver, address, size)
    return handle


def _unmap_twice(driver: Driver, taken: tuple[int, int, int]) -> None:
    unmap(driver, taken[0], taken[2])
    unmap(driver, taken[1], taken[2])


@MAPPED.add(VMM, "mapped at two addresses", "cuMemCreate cuMemMap cuMemUnmap cuMemRelease", _unmap_twice)
def _mapped_twice(driver: Driver, size: int) -> tuple[int, int, int]:
    handle = create(driver, size)
    addresses = map_in(driver, handle, size), map_in(driver, handle, size)
    release(driver, handle)
    return *addresses, size


# --- arrays -----------------------------------------------------------------------------------------------

ARRAYS = "arrays"


def _destroy(driver: Driver, taken: int) -> None:
    driver.call("cuArrayDestroy", ctypes.c_void_p(taken))


def _destroy_mipmap(driver: Driver, taken: int) -> None:
    driver.call("cuMipmappedArrayDestroy", ctypes.c_void_p(taken))


MAPPED.add(ARRAYS, "cuArrayCreate", "cuArrayCreate_v2 cuArrayDestroy", _destroy)(
    lambda driver, size: driver.out("cuArrayCreate_v2", array_shape(size))
)
MAPPED.add(ARRAYS, "cuArrayCreate of CUDA 2", "cuArrayCreate cuArrayDestroy", _destroy)(
    lambda driver, size: driver.out("cuArrayCreate", array_shape_v1(size))
)
MAPPED.add(ARRAYS, "cuArray3DCreate", "cuArray3DCreate_v2 cuArrayDestroy", _destroy)(
    lambda driver, size: driver.out("cuArray3DCreate_v2", array_shape_3d(size, depth=32))
)
MAPPED.add(ARRAYS, "cuArray3DCreate of CUDA 2", "cuArray3DCreate cuArrayDestroy", _destroy)(
    lambda driver, size: driver.out("cuArray3DCreate", array_shape_3d_v1(size))
)
MAPPED.add(ARRAYS, "layered", "cuArray3DCreate_v2 cuArrayDestroy", _destroy)(
    lambda driver, size: driver.out("cuArray3DCreate_v2", array_shape_3d(size, 1, depth=16))
)
MAPPED.add(ARRAYS, "mipmapped", "cuMipmappedArrayCreate cuMipmappedArrayDestroy", _destroy_mipmap)(
    lambda driver, size: driver.out("cuMipmappedArrayCreate", array_shape_3d(size), 5)
)

SPARSE, DEFERRED = 0x40, 0x80


def _mapped_into(driver: Driver, array: int, is_mipmap: bool, size: int, symbol: str, flags: int) -> None:
    """Map memory into an array, over all of it, and release the handle: the array holds it from now on."""
    needs = size
    if flags == DEFERRED:
        requirements = ctypes.create_string_buffer(32)
        driver.call("cuArrayGetMemoryRequirements", requirements, ctypes.c_void_p(array), 0)
        needs = struct.unpack_from("=Q", requirements)[0]
    blocks = (needs + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
    if flags == SPARSE:
        _map_once(driver, symbol, blocks, True, lambda handle: tile(array, is_mipmap, size >> 16, handle))
        return
    # How such an array is to be mapped whole, and by which memory, the manual does not say: the first that is taken.
    forms: list[tuple[bool, Form]] = [
        (for_tiles, form)
        for for_tiles in (False, True)
        for form in (
            lambda handle: tile(array, is_mipmap, size >> 16, handle),
            lambda handle: whole(array, is_mipmap, needs, handle),
        )
    ]
    for for_tiles, form in forms[:-1]:
        try:
            _map_once(driver, symbol, blocks, for_tiles, form)
        except DriverError as error:
            if error.code != INVALID_VALUE:
                raise
        else:
            return
    _map_once(driver, symbol, blocks, *forms[-1])


Form = Callable[[int], bytes]


def _map_once(driver: Driver, symbol: str, size: int, for_tiles: bool, form: Form) -> None:
    handle = create(driver, size, for_tiles=for_tiles)
    try:
        driver.call(symbol, form(handle), 1, 0)
        driver.wait()
    finally:
        release(driver, handle)


def _sparse(symbol: str, flags: int) -> Take:
    def take(driver: Driver, size: int) -> tuple[int, int]:
        array = driver.out("cuArray3DCreate_v2", array_shape_3d(size, flags))
        try:
            _mapped_into(driver, array, False, size, symbol, flags)
        except Exception:
            _destroy(driver, array)
            raise
        return array, size

    return take


def _destroy_sparse(driver: Driver, taken: tuple[int, int]) -> None:
    _destroy(driver, taken[0])


def _unmap_sparse(symbol: str) -> Give:
    def give(driver: Driver, taken: tuple[int, int]) -> None:
        driver.call(symbol, tile(taken[0], False, taken[1] >> 16, 0), 1, 0)
        driver.wait()

    return give


MAPPED.add(
    ARRAYS,
    "sparse, with memory mapped into it",
    "cuArray3DCreate_v2 cuMemCreate cuMemMapArrayAsync cuArrayDestroy",
    _destroy_sparse,
)(_sparse("cuMemMapArrayAsync", SPARSE))
MAPPED.add(
    ARRAYS,
    "sparse, per-thread stream, unmapped again",
    "cuArray3DCreate_v2 cuMemCreate cuMemMapArrayAsync_ptsz",
    _unmap_sparse("cuMemMapArrayAsync_ptsz"),
)(_sparse("cuMemMapArrayAsync_ptsz", SPARSE))
MAPPED.add(
    ARRAYS,
    "mapped later (deferred)",
    "cuArray3DCreate_v2 cuMemCreate cuMemMapArrayAsync cuArrayDestroy",
    _destroy_sparse,
)(_sparse("cuMemMapArrayAsync", DEFERRED))


@MAPPED.add(
    ARRAYS,
    "sparse and mipmapped",
    "cuMipmappedArrayCreate cuMemCreate cuMemMapArrayAsync cuMipmappedArrayDestroy",
    _destroy_mipmap,
)
def _sparse_mipmap(driver: Driver, size: int) -> int:
    mipmap = driver.out("cuMipmappedArrayCreate", array_shape_3d(size, SPARSE), 1)
    try:
        _mapped_into(driver, mipmap, True, size, "cuMemMapArrayAsync", SPARSE)
    except Exception:
        _destroy_mipmap(driver, mipmap)
        raise
    return mipmap


# --- multicast objects ---------------------------------------------------------------------------------------


def _group(driver: Driver, size: int) -> int:
    """Return a multicast object of the first device alone."""
    group = driver.out("cuMulticastCreate", struct.pack("=I4xQQQ", 1, size, 0, 0))
    driver.call("cuMulticastAddDevice", group, 0)
    return group


def _bound(bind: Any) -> Take:
    """Return a way to take memory that only a multicast object refers to in the end."""

    def take(driver: Driver, size: int) -> tuple[int, int]:
        handle = create(driver, size)
        group = _group(driver, size)
        bind(driver, group, handle, size)
        release(driver, handle)
        return group, size

    return take


def _by_address(symbol: str, device: tuple[int, ...]) -> Any:
    def bind(driver: Driver, group: int, handle: int, size: int) -> None:
        address = map_in(driver, handle, size)
        driver.call(symbol, group, *device, 0, address, size, 0)
        unmap(driver, address, size)

    return bind


def _by_handle(symbol: str, device: tuple[int, ...]) -> Any:
    return lambda driver, group, handle, size: driver.call(symbol, group, *device, 0, handle, 0, size, 0)


def _unbind(driver: Driver, taken: tuple[int, int]) -> None:
    driver.call("cuMulticastUnbind", taken[0], 0, 0, taken[1])
    release(driver, taken[0])


def _release_group(driver: Driver, taken: tuple[int, int]) -> None:
    release(driver, taken[0])


for _symbol, _bind, _give, _also in (
    ("cuMulticastBindMem", _by_handle("cuMulticastBindMem", ()), _unbind, " cuMulticastUnbind"),
    ("cuMulticastBindMem_v2", _by_handle("cuMulticastBindMem_v2", (0,)), _unbind, " cuMulticastUnbind"),
    ("cuMulticastBindAddr", _by_address("cuMulticastBindAddr", ()), _release_group, ""),
    ("cuMulticastBindAddr_v2", _by_address("cuMulticastBindAddr_v2", (0,)), _release_group, ""),
):
    MAPPED.add(
        "multicast objects",
        f"bound by {_symbol}",
        f"cuMulticastCreate {_symbol}{_also} cuMemCreate cuMemRelease",
        _give,
        simulated_only=True,
    )(_bound(_bind))
