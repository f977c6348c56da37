"""Starting, devices, contexts, and the way to entry points."""

from __future__ import annotations

import ctypes
from ctypes import byref

from asking import NULL, Asked, i32, size, u32, u64, with_context

# Attributes whose answer is a value on every board (CUdevice_attribute).
ATTRIBUTES = (1, 2, 5, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 75, 76, 78,
              79, 81, 83, 84, 85, 86, 88, 89, 90, 95, 97, 99, 100, 102, 103, 106, 111, 115, 119)  # fmt: skip


def starting(cuda: Asked) -> None:
    """What answers before cuInit, and how that is called."""
    value, place = i32(), ctypes.c_void_p()
    cuda.ask("cuDeviceGetCount", "before cuInit", byref(value), says=3)
    cuda.ask("cuDeviceGet", "before cuInit", byref(value), 0, says=3)
    cuda.ask("cuCtxGetCurrent", "before cuInit", byref(place), says=3)
    cuda.ask("cuCtxSynchronize", "before cuInit", says=3)
    cuda.ask("cuMemAlloc_v2", "before cuInit", byref(place), size(1 << 20), says=3)
    cuda.ask("cuStreamCreate", "before cuInit", byref(place), u32(0), says=3)
    cuda.ask("cuEventCreate", "before cuInit", byref(place), u32(0), says=3)
    cuda.ask("cuDriverGetVersion", "before cuInit", byref(value), says=0)
    cuda.ask("cuDriverGetVersion", "no place", NULL, says=1)
    for number, says in ((0, 0), (2, 0), (700, 0), (12345, 1)):
        cuda.ask("cuGetErrorName", f"of {number}", i32(number), byref(place), says=says)
        cuda.ask("cuGetErrorString", f"of {number}", i32(number), byref(place), says=says)
    cuda.ask("cuInit", "flags 1", u32(1), says=1)
    cuda.ask("cuInit", "flags 0", u32(0), says=0)
    cuda.ask("cuInit", "again", u32(0), says=0)


def entry_points(cuda: Asked) -> None:
    """What cuGetProcAddress makes of names, versions and flags."""
    with_context(cuda)

    def find(case: str, name: bytes | None, version: int, flags: int, says: int, status_says: int | None) -> None:
        place, status = ctypes.c_void_p(), i32(-7)
        result = cuda.ask(
            "cuGetProcAddress_v2", case, ctypes.c_char_p(name), byref(place), version, u64(flags), byref(status),
            says=says,
        )  # fmt: skip
        if result == 0:
            cuda.note("cuGetProcAddress_v2", f"{case}: status", status.value, status_says)
            cuda.note("cuGetProcAddress_v2", f"{case}: found", int(place.value is not None), int(status_says == 0))

    find("a known name", b"cuMemAlloc", 12000, 0, 0, 0)
    find("its first version", b"cuMemAlloc", 2000, 0, 0, 0)
    find("an unknown name", b"cuNothingOfTheKind", 12000, 0, 0, 1)
    find("an empty name", b"", 12000, 0, 0, 1)
    find("a version before the function", b"cuMemAllocAsync", 10000, 0, 0, 2)
    find("a version above the driver's", b"cuMemAlloc", 99000, 0, 1, None)
    find("the legacy stream", b"cuLaunchKernel", 12000, 1, 0, 0)
    find("the thread's stream", b"cuLaunchKernel", 12000, 2, 0, 0)
    find("the thread's stream where it plays no part", b"cuMemAlloc", 12000, 2, 0, 0)
    find("flags 4", b"cuMemAlloc", 12000, 4, 1, None)
    find("no name", None, 12000, 0, 1, None)
    place = ctypes.c_void_p()
    cuda.ask("cuGetProcAddress_v2", "no status", b"cuInit", byref(place), 12000, u64(0), NULL, says=0)
    cuda.ask("cuGetProcAddress_v2", "no place", b"cuInit", NULL, 12000, u64(0), NULL, says=1)
    cuda.ask("cuGetProcAddress", "version 1", b"cuInit", byref(place), 12000, u64(0), says=0)
    cuda.ask("cuGetProcAddress", "version 1, an unknown name", b"cuNothing", byref(place), 12000, u64(0))


def devices(cuda: Asked) -> None:
    """What devices are asked."""
    with_context(cuda)
    value, other, bytes_, text = i32(), i32(), size(), ctypes.create_string_buffer(256)
    cuda.ask("cuDeviceGetCount", "ok", byref(value), says=0)
    cuda.ask("cuDeviceGetCount", "no place", NULL, says=1)
    for ordinal, says in ((0, 0), (-1, 101), (99, 101)):
        cuda.ask("cuDeviceGet", f"ordinal {ordinal}", byref(value), ordinal, says=says)
    cuda.ask("cuDeviceGet", "no place", NULL, 0, says=1)
    cuda.ask("cuDeviceGetName", "ok", text, 256, 0, says=0)
    cuda.ask("cuDeviceGetName", "cut short", text, 4, 0, says=0)
    cuda.ask("cuDeviceGetName", "no place", NULL, 256, 0, says=1)
    cuda.ask("cuDeviceGetName", "no room", text, 0, 0)
    cuda.ask("cuDeviceGetName", "no device", text, 256, 99, says=101)
    for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        cuda.ask(name, "ok", text, 0, says=0)
        cuda.ask(name, "no place", NULL, 0, says=1)
        cuda.ask(name, "no device", text, 99, says=101)
    cuda.ask("cuDeviceTotalMem_v2", "ok", byref(bytes_), 0, says=0)
    cuda.ask("cuDeviceTotalMem_v2", "no place", NULL, 0, says=1)
    cuda.ask("cuDeviceTotalMem_v2", "no device", byref(bytes_), 99, says=101)
    cuda.ask("cuDeviceComputeCapability", "ok", byref(value), byref(other), 0, says=0)
    cuda.ask("cuDeviceComputeCapability", "no device", byref(value), byref(other), 99, says=101)
    for attribute in ATTRIBUTES:
        cuda.ask("cuDeviceGetAttribute", f"attribute {attribute}", byref(value), attribute, 0, says=0)
    for attribute in (0, -1, 9999):
        cuda.ask("cuDeviceGetAttribute", f"attribute {attribute}", byref(value), attribute, 0, says=1)
    cuda.ask("cuDeviceGetAttribute", "no place", NULL, 1, 0, says=1)
    cuda.ask("cuDeviceGetAttribute", "no device", byref(value), 1, 99, says=101)
    cuda.ask("cuDeviceGetPCIBusId", "ok", text, 32, 0, says=0)
    cuda.ask("cuDeviceGetByPCIBusId", "its own", byref(value), text, says=0)
    cuda.ask("cuDeviceGetByPCIBusId", "none", byref(value), b"nonsense")
    cuda.ask("cuDeviceGetByPCIBusId", "another's", byref(value), b"7777:77:07.0", says=101)
    cuda.ask("cuDeviceGetByPCIBusId", "no text", byref(value), NULL, says=1)
    cuda.ask("cuDeviceGetPCIBusId", "no place", NULL, 32, 0, says=1)
    cuda.ask("cuDeviceGetProperties", "ok", text, 0, says=0)
    cuda.ask("cuDeviceGetProperties", "no place", NULL, 0, says=1)
    cuda.ask("cuDeviceCanAccessPeer", "itself", byref(value), 0, 0, says=0)
    cuda.ask("cuDeviceCanAccessPeer", "no device", byref(value), 0, 99, says=101)
    cuda.ask("cuDeviceCanAccessPeer", "no place", NULL, 0, 0, says=1)
    cuda.ask("cuDeviceGetP2PAttribute", "itself", byref(value), 2, 0, 0)
    for name in ("cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool"):
        cuda.make(ctypes.c_void_p, name, "ok", 0)
        cuda.ask(name, "no place", NULL, 0, says=1)
        cuda.ask(name, "no device", byref(ctypes.c_void_p()), 99, says=101)
    cuda.ask("cuDevicePrimaryCtxGetState", "active", 0, byref(u32()), byref(value), says=0)
    cuda.ask("cuDevicePrimaryCtxGetState", "no device", 99, byref(u32()), byref(value), says=101)
    cuda.ask("cuDevicePrimaryCtxRetain", "no place", NULL, 0, says=1)
    cuda.ask("cuDevicePrimaryCtxRetain", "no device", byref(ctypes.c_void_p()), 99, says=101)
    cuda.ask("cuDevicePrimaryCtxRelease_v2", "ok", 0, says=0)
    cuda.ask("cuDevicePrimaryCtxRelease_v2", "once too often", 0, says=201)
    cuda.ask("cuDevicePrimaryCtxRelease_v2", "no device", 99, says=101)


def contexts(cuda: Asked) -> None:
    """What contexts are asked, first without one."""
    place, value, bytes_ = ctypes.c_void_p(), i32(), size()
    cuda.library.cuInit(0)
    cuda.ask("cuCtxGetCurrent", "none", byref(place), says=0)
    cuda.ask("cuCtxGetCurrent", "no place", NULL, says=1)
    cuda.ask("cuCtxGetDevice", "without a context", byref(value), says=201)
    cuda.ask("cuCtxSynchronize", "without a context", says=201)
    cuda.ask("cuCtxGetLimit", "without a context", byref(bytes_), 0, says=201)
    cuda.ask("cuCtxPopCurrent_v2", "without a context", byref(place), says=201)
    cuda.ask("cuMemAlloc_v2", "without a context", byref(place), size(1024), says=201)
    cuda.ask("cuMemGetInfo_v2", "without a context", byref(bytes_), byref(size()), says=201)
    cuda.ask("cuStreamCreate", "without a context", byref(place), u32(0), says=201)
    cuda.ask("cuEventCreate", "without a context", byref(place), u32(0), says=201)
    cuda.ask("cuCtxSetCurrent", "none", NULL, says=0)
    cuda.ask("cuCtxPushCurrent_v2", "none", NULL)
    cuda.ask("cuCtxDestroy_v2", "none", NULL)
    cuda.ask("cuCtxCreate_v2", "all flags", byref(place), u32(0xFFFFFFFF), 0, says=1)
    cuda.ask("cuCtxCreate_v2", "no device", byref(place), u32(0), 99, says=101)
    cuda.ask("cuCtxCreate_v2", "no place", NULL, u32(0), 0, says=1)
    context = cuda.make(ctypes.c_void_p, "cuCtxCreate_v2", "ok", u32(0), 0)
    cuda.ask("cuCtxGetDevice", "ok", byref(value), says=0)
    cuda.ask("cuCtxGetDevice", "no place", NULL, says=1)
    cuda.ask("cuCtxGetApiVersion", "ok", context, byref(u32()), says=0)
    cuda.ask("cuCtxGetApiVersion", "of the current one", NULL, byref(u32()))
    cuda.ask("cuCtxGetFlags", "ok", byref(u32()), says=0)
    cuda.ask("cuCtxGetFlags", "no place", NULL, says=1)
    cuda.ask("cuCtxGetId", "ok", context, byref(u64()), says=0)
    cuda.ask("cuCtxGetId", "of the current one", NULL, byref(u64()), says=0)
    for limit in range(6):
        cuda.ask("cuCtxGetLimit", f"limit {limit}", byref(bytes_), limit, says=0)
    cuda.ask("cuCtxGetLimit", "limit 99", byref(bytes_), 99, says=215)
    cuda.ask("cuCtxGetLimit", "no place", NULL, 0, says=1)
    cuda.ask("cuCtxSetLimit", "the stack", 0, size(4096), says=0)
    cuda.ask("cuCtxSetLimit", "limit 99", 99, size(1), says=215)
    cuda.ask("cuCtxGetCacheConfig", "ok", byref(value), says=0)
    cuda.ask("cuCtxGetCacheConfig", "no place", NULL, says=1)
    cuda.ask("cuCtxSetCacheConfig", "ok", 1, says=0)
    cuda.ask("cuCtxGetSharedMemConfig", "ok", byref(value), says=0)
    cuda.ask("cuCtxGetStreamPriorityRange", "ok", byref(value), byref(i32()), says=0)
    cuda.ask("cuCtxGetStreamPriorityRange", "no places", NULL, NULL, says=0)
    cuda.ask("cuCtxResetPersistingL2Cache", "ok", says=0)
    cuda.ask("cuCtxSynchronize", "ok", says=0)
    cuda.ask("cuCtxDisablePeerAccess", "itself", context, says=705)
    cuda.ask("cuCtxEnablePeerAccess", "itself", context, u32(0))
    cuda.ask("cuCtxEnablePeerAccess", "none", NULL, u32(0), says=201)
    cuda.ask("cuCtxPushCurrent_v2", "ok", context, says=0)
    cuda.ask("cuCtxPopCurrent_v2", "ok", byref(place), says=0)
    cuda.ask("cuCtxPopCurrent_v2", "no place", NULL, says=0)
    cuda.ask("cuCtxSetCurrent", "ok", context, says=0)
    cuda.ask("cuCtxDestroy_v2", "ok", context, says=0)
    cuda.ask("cuCtxGetDevice", "after its end", byref(value))
