"""Memory of all kinds, and what is known of an address."""

from __future__ import annotations

import ctypes
from ctypes import byref

from asking import MIB, NULL, Asked, i32, size, u32, u64, with_context

WILD = 0x1234


def memory(cuda: Asked) -> None:
    """Device, host and managed memory."""
    with_context(cuda)
    bytes_, value = size(), u32()
    place = cuda.make(u64, "cuMemAlloc_v2", "ok", size(MIB))
    for case, wanted, says in (("nothing", 0, 1), ("too much", 1 << 60, 2)):
        cuda.ask("cuMemAlloc_v2", case, byref(u64()), size(wanted), says=says)
    cuda.ask("cuMemAlloc_v2", "no place", NULL, size(MIB), says=1)
    pitched = u64()
    cuda.ask("cuMemAllocPitch_v2", "ok", byref(pitched), byref(bytes_), size(100), size(10), u32(4), says=0)
    cuda.ask("cuMemAllocPitch_v2", "no width", byref(u64()), byref(bytes_), size(0), size(10), u32(4), says=1)
    cuda.ask("cuMemAllocPitch_v2", "element of 5", byref(u64()), byref(bytes_), size(100), size(10), u32(5), says=1)
    cuda.ask("cuMemGetInfo_v2", "ok", byref(bytes_), byref(size()), says=0)
    cuda.ask("cuMemGetAddressRange_v2", "its start", byref(u64()), byref(bytes_), place, says=0)
    cuda.ask("cuMemGetAddressRange_v2", "inside", byref(u64()), byref(bytes_), u64(place.value + 100), says=0)
    cuda.ask("cuMemGetAddressRange_v2", "no places", NULL, NULL, place, says=0)
    cuda.ask("cuMemGetAddressRange_v2", "a wild address", byref(u64()), byref(bytes_), u64(WILD))
    fills(cuda, place)
    copies(cuda, place)
    addresses(cuda, place)
    cuda.ask("cuMemFree_v2", "inside", u64(place.value + 4096), says=1)
    cuda.ask("cuMemFree_v2", "ok", place, says=0)
    cuda.ask("cuMemFree_v2", "twice", place, says=1)
    cuda.ask("cuMemFree_v2", "pitched", pitched, says=0)
    cuda.ask("cuMemFree_v2", "nothing", u64(0))
    cuda.ask("cuMemFree_v2", "a wild address", u64(WILD), says=1)
    cuda.ask("cuMemAllocManaged", "flags 0", byref(u64()), size(MIB), u32(0), says=1)
    cuda.ask("cuMemAllocManaged", "flags 3", byref(u64()), size(MIB), u32(3), says=1)
    cuda.ask("cuMemAllocManaged", "nothing", byref(u64()), size(0), u32(1), says=1)
    managed = cuda.make(u64, "cuMemAllocManaged", "ok", size(MIB), u32(1))
    cuda.ask("cuPointerGetAttribute", "managed", byref(value), 8, managed, says=0)
    cuda.note("cuPointerGetAttribute", "managed: value", int(value.value), 1)
    cuda.ask("cuMemFree_v2", "managed", managed, says=0)


def fills(cuda: Asked, place: ctypes.c_uint64) -> None:
    """Fill device memory."""
    stream = NULL
    cuda.ask("cuMemsetD8_v2", "ok", place, ctypes.c_ubyte(1), size(100), says=0)
    cuda.ask("cuMemsetD16_v2", "ok", place, ctypes.c_ushort(1), size(100), says=0)
    cuda.ask("cuMemsetD32_v2", "ok", place, u32(1), size(100), says=0)
    cuda.ask("cuMemsetD32_v2", "nothing", place, u32(1), size(0), says=0)
    cuda.ask("cuMemsetD32_v2", "askew", u64(place.value + 2), u32(1), size(1), says=1)
    cuda.ask("cuMemsetD8_v2", "beyond the end", place, ctypes.c_ubyte(1), size(1 << 40), says=1)
    cuda.ask("cuMemsetD8_v2", "a wild address", u64(WILD), ctypes.c_ubyte(1), size(1), says=1)
    cuda.ask("cuMemsetD8Async", "ok", place, ctypes.c_ubyte(1), size(100), stream, says=0)
    cuda.ask("cuMemsetD2D8_v2", "ok", place, size(512), ctypes.c_ubyte(1), size(100), size(4), says=0)


def copies(cuda: Asked, place: ctypes.c_uint64) -> None:
    """Copy between host and device."""
    host = ctypes.create_string_buffer(4096)
    cuda.ask("cuMemcpyHtoD_v2", "ok", place, host, size(4096), says=0)
    cuda.ask("cuMemcpyDtoH_v2", "ok", host, place, size(4096), says=0)
    cuda.ask("cuMemcpyDtoD_v2", "ok", u64(place.value + 8192), place, size(4096), says=0)
    cuda.ask("cuMemcpy", "ok", u64(place.value + 8192), place, size(4096), says=0)
    cuda.ask("cuMemcpyHtoD_v2", "nothing", place, host, size(0), says=0)
    cuda.ask("cuMemcpyHtoD_v2", "to a wild address", u64(WILD), host, size(16), says=1)
    cuda.ask("cuMemcpyDtoH_v2", "from a wild address", host, u64(WILD), size(16), says=1)
    cuda.ask("cuMemcpyDtoH_v2", "beyond the end", host, u64(place.value + MIB - 16), size(4096), says=1)
    cuda.ask("cuMemcpyHtoDAsync_v2", "ok", place, host, size(4096), NULL, says=0)
    cuda.ask("cuMemcpyDtoHAsync_v2", "ok", host, place, size(4096), NULL, says=0)
    cuda.ask("cuMemcpy2D_v2", "no description", NULL, says=1)
    cuda.ask("cuMemcpy3D_v2", "no description", NULL, says=1)


def addresses(cuda: Asked, place: ctypes.c_uint64) -> None:
    """What is known of an address (CUpointer_attribute)."""
    answer = ctypes.create_string_buffer(64)
    for attribute in (1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17):
        says = 0 if attribute in (1, 2, 3, 6, 7, 8, 9, 11, 12, 13) else None
        cuda.ask("cuPointerGetAttribute", f"attribute {attribute}", answer, attribute, place, says=says)
    cuda.ask("cuPointerGetAttribute", "the host's address of device memory", answer, 4, place, says=1)
    cuda.ask("cuPointerGetAttribute", "attribute 999", answer, 999, place, says=1)
    cuda.ask("cuPointerGetAttribute", "a wild address", answer, 2, u64(WILD), says=1)
    cuda.ask("cuPointerGetAttribute", "no place", NULL, 2, place, says=1)
    kinds, places = (i32 * 2)(2, 9), (ctypes.c_void_p * 2)(ctypes.addressof(answer), ctypes.addressof(answer) + 8)
    cuda.ask("cuPointerGetAttributes", "ok", u32(2), kinds, places, place, says=0)
    cuda.ask("cuPointerGetAttributes", "a wild address", u32(2), kinds, places, u64(WILD), says=0)
    cuda.ask("cuPointerGetAttributes", "none", u32(0), kinds, places, place)
    cuda.ask("cuPointerSetAttribute", "synchronous", byref(u32(1)), 6, place, says=0)
    cuda.ask("cuPointerSetAttribute", "its kind", byref(u32(1)), 2, place, says=1)


def host_memory(cuda: Asked) -> None:
    """Page-locked memory."""
    with_context(cuda)
    own = ctypes.create_string_buffer(1 << 16)
    aligned = ctypes.c_void_p((ctypes.addressof(own) + 4095) & ~4095)
    first = cuda.make(ctypes.c_void_p, "cuMemAllocHost_v2", "ok", size(4096))
    cuda.ask("cuMemAllocHost_v2", "nothing", byref(ctypes.c_void_p()), size(0))
    cuda.ask("cuMemAllocHost_v2", "no place", NULL, size(4096), says=1)
    second = cuda.make(ctypes.c_void_p, "cuMemHostAlloc", "mapped", size(4096), u32(3))
    cuda.ask("cuMemHostAlloc", "flags 8", byref(ctypes.c_void_p()), size(4096), u32(8), says=1)
    cuda.ask("cuMemHostGetDevicePointer_v2", "ok", byref(u64()), second, u32(0), says=0)
    cuda.ask("cuMemHostGetDevicePointer_v2", "flags 1", byref(u64()), second, u32(1), says=1)
    cuda.ask("cuMemHostGetDevicePointer_v2", "not its memory", byref(u64()), own, u32(0), says=1)
    cuda.ask("cuMemHostGetFlags", "ok", byref(u32()), second, says=0)
    cuda.ask("cuMemHostGetFlags", "not its memory", byref(u32()), own, says=1)
    cuda.ask("cuMemHostRegister_v2", "ok", aligned, size(8192), u32(0), says=0)
    cuda.ask("cuMemHostRegister_v2", "twice", aligned, size(8192), u32(0), says=712)
    cuda.ask("cuMemHostRegister_v2", "nothing", aligned, size(0), u32(0), says=1)
    cuda.ask("cuMemHostRegister_v2", "no memory", NULL, size(4096), u32(0), says=1)
    cuda.ask("cuMemHostUnregister", "ok", aligned, says=0)
    cuda.ask("cuMemHostUnregister", "twice", aligned, says=713)
    cuda.ask("cuMemFreeHost", "ok", first, says=0)
    cuda.ask("cuMemFreeHost", "mapped", second, says=0)
    cuda.ask("cuMemFreeHost", "twice", second, says=1)
    cuda.ask("cuMemFreeHost", "not its memory", own, says=1)


class PoolProps(ctypes.Structure):
    """`CUmemPoolProps`."""

    _fields_ = (("kind", i32), ("handles", i32), ("location", i32), ("id", i32), ("rest", ctypes.c_char * 72))


class AllocationProp(ctypes.Structure):
    """`CUmemAllocationProp`."""

    _fields_ = (("kind", i32), ("handles", i32), ("location", i32), ("id", i32), ("rest", ctypes.c_char * 16))


def pools(cuda: Asked) -> None:
    """Memory in the order of streams."""
    with_context(cuda)
    value, props = u64(), PoolProps(kind=1, location=1)
    place = cuda.make(u64, "cuMemAllocAsync", "ok", size(MIB), NULL)
    cuda.ask("cuMemAllocAsync", "nothing", byref(u64()), size(0), NULL)
    cuda.ask("cuMemAllocAsync", "too much", byref(u64()), size(1 << 50), NULL, says=2)
    cuda.ask("cuMemAllocAsync", "no place", NULL, size(MIB), NULL, says=1)
    cuda.ask("cuMemFreeAsync", "ok", place, NULL, says=0)
    cuda.ask("cuMemFreeAsync", "twice", place, NULL, says=1)
    cuda.ask("cuMemFreeAsync", "a wild address", u64(WILD), NULL, says=1)
    pool = cuda.make(ctypes.c_void_p, "cuMemPoolCreate", "ok", byref(props))
    cuda.ask("cuMemPoolCreate", "no kind", byref(ctypes.c_void_p()), byref(PoolProps(location=1)), says=1)
    cuda.ask("cuMemPoolCreate", "no place", NULL, byref(props), says=1)
    for attribute in range(1, 9):
        cuda.ask("cuMemPoolGetAttribute", f"attribute {attribute}", pool, attribute, byref(value), says=0)
    cuda.ask("cuMemPoolGetAttribute", "attribute 99", pool, 99, byref(value), says=1)
    cuda.ask("cuMemPoolSetAttribute", "the threshold", pool, 4, byref(u64(MIB)), says=0)
    cuda.ask("cuMemPoolSetAttribute", "what is reserved", pool, 5, byref(u64(MIB)), says=1)
    place = cuda.make(u64, "cuMemAllocFromPoolAsync", "ok", size(MIB), pool, NULL)
    cuda.ask("cuMemFreeAsync", "of a pool", place, NULL, says=0)
    cuda.ask("cuStreamSynchronize", "the legacy one", NULL, says=0)
    cuda.ask("cuMemPoolTrimTo", "ok", pool, size(0), says=0)
    cuda.ask("cuMemPoolDestroy", "ok", pool, says=0)
    cuda.ask("cuMemPoolDestroy", "none", NULL, says=1)
    default = ctypes.c_void_p()
    cuda.library.cuDeviceGetDefaultMemPool(byref(default), 0)
    cuda.ask("cuMemPoolDestroy", "the default one", default)


def virtual(cuda: Asked) -> None:
    """Addresses and memory apart (VMM)."""
    with_context(cuda)
    props = AllocationProp(kind=1, location=1)
    grain = cuda.make(size, "cuMemGetAllocationGranularity", "least", byref(props), 0).value
    cuda.ask("cuMemGetAllocationGranularity", "recommended", byref(size()), byref(props), 1, says=0)
    cuda.ask("cuMemGetAllocationGranularity", "option 9", byref(size()), byref(props), 9, says=1)
    cuda.ask("cuMemGetAllocationGranularity", "no place", NULL, byref(props), 0, says=1)
    place = cuda.make(u64, "cuMemAddressReserve", "ok", size(2 * grain), size(0), u64(0), u64(0))
    cuda.ask("cuMemAddressReserve", "nothing", byref(u64()), size(0), size(0), u64(0), u64(0), says=1)
    cuda.ask("cuMemAddressReserve", "odd size", byref(u64()), size(grain + 1), size(0), u64(0), u64(0), says=1)
    cuda.ask("cuMemAddressReserve", "odd alignment", byref(u64()), size(grain), size(3), u64(0), u64(0), says=1)
    cuda.ask("cuMemAddressReserve", "flags 1", byref(u64()), size(grain), size(0), u64(0), u64(1), says=1)
    handle = cuda.make(u64, "cuMemCreate", "ok", size(grain), byref(props), u64(0))
    cuda.ask("cuMemCreate", "odd size", byref(u64()), size(grain + 1), byref(props), u64(0), says=1)
    cuda.ask("cuMemCreate", "nothing", byref(u64()), size(0), byref(props), u64(0), says=1)
    cuda.ask("cuMemCreate", "too much", byref(u64()), size(1 << 50), byref(props), u64(0), says=2)
    cuda.ask("cuMemCreate", "no kind", byref(u64()), size(grain), byref(AllocationProp(location=1)), u64(0), says=1)
    cuda.ask("cuMemMap", "too long", place, size(2 * grain), size(0), handle, u64(0), says=1)
    cuda.ask("cuMemMap", "an offset", place, size(grain), size(grain), handle, u64(0), says=1)
    cuda.ask("cuMemMap", "not reserved", u64(grain * 16), size(grain), size(0), handle, u64(0), says=1)
    cuda.ask("cuMemMap", "ok", place, size(grain), size(0), handle, u64(0), says=0)
    cuda.ask("cuMemMap", "twice", place, size(grain), size(0), handle, u64(0), says=1)
    access = (i32 * 3)(1, 0, 3)
    cuda.ask("cuMemSetAccess", "ok", place, size(grain), access, size(1), says=0)
    cuda.ask("cuMemSetAccess", "not mapped", u64(place.value + grain), size(grain), access, size(1), says=1)
    cuda.ask("cuMemGetAccess", "ok", byref(u64()), access, place, says=0)
    cuda.ask("cuMemsetD8_v2", "mapped", place, ctypes.c_ubyte(1), size(grain), says=0)
    cuda.ask("cuMemRetainAllocationHandle", "ok", byref(u64()), ctypes.c_void_p(place.value), says=0)
    cuda.ask("cuMemRetainAllocationHandle", "not mapped", byref(u64()), ctypes.c_void_p(WILD), says=1)
    cuda.ask("cuMemRelease", "of the second", handle, says=0)
    cuda.ask("cuMemAddressFree", "while mapped", place, size(2 * grain))
    cuda.ask("cuMemUnmap", "ok", place, size(grain), says=0)
    cuda.ask("cuMemUnmap", "twice", place, size(grain), says=1)
    cuda.ask("cuMemRelease", "ok", handle, says=0)
    cuda.ask("cuMemRelease", "none", u64(0), says=1)
    cuda.ask("cuMemAddressFree", "ok", place, size(2 * grain))
