"""Plain, pitched, managed and host memory; stream-ordered memory and pools."""

from __future__ import annotations

import ctypes
from typing import Any

from driver import DEVICE, MIB, Driver, pool_properties
from ways import Give, Take, Ways

PLAIN = Ways()
FAMILY = "plain"


def free(driver: Driver, taken: int) -> None:
    """Free by `cuMemFree_v2`."""
    driver.call("cuMemFree_v2", taken)


@PLAIN.add(FAMILY, "cuMemAlloc", "cuMemAlloc_v2 cuMemFree_v2", free)
def _plain(driver: Driver, size: int) -> int:
    return driver.out("cuMemAlloc_v2", size)


def _free_v1(driver: Driver, taken: int) -> None:
    driver.call("cuMemFree", taken)


@PLAIN.add(FAMILY, "cuMemAlloc of CUDA 2", "cuMemAlloc cuMemFree", _free_v1)
def _plain_v1(driver: Driver, size: int) -> int:
    return driver.out("cuMemAlloc", size)


@PLAIN.add(FAMILY, "cuMemAllocPitch", "cuMemAllocPitch_v2 cuMemFree_v2", free)
def _pitched(driver: Driver, size: int) -> int:
    pitch = ctypes.c_uint64()
    return driver.out("cuMemAllocPitch_v2", ctypes.byref(pitch), 1 << 20, size >> 20, 16)


@PLAIN.add(FAMILY, "cuMemAllocPitch of CUDA 2", "cuMemAllocPitch cuMemFree", _free_v1)
def _pitched_v1(driver: Driver, size: int) -> int:
    pitch = ctypes.c_uint64()
    return driver.out("cuMemAllocPitch", ctypes.byref(pitch), 1 << 20, size >> 20, 16)


@PLAIN.add(FAMILY, "plain memory freed in stream order", "cuMemAlloc_v2 cuMemFreeAsync", lambda d, t: _free_async(d, t))
def _plain_freed_async(driver: Driver, size: int) -> int:
    return driver.out("cuMemAlloc_v2", size)


def _free_async(driver: Driver, taken: int) -> None:
    driver.call("cuMemFreeAsync", taken, 0)
    driver.wait()


@PLAIN.add(FAMILY, "managed", "cuMemAllocManaged cuMemFree_v2", free)
def _managed(driver: Driver, size: int) -> int:
    return driver.out("cuMemAllocManaged", size, 1)


ON_DEVICE = DEVICE  # a CUmemLocation by value: the device 0


@PLAIN.add(
    FAMILY,
    "managed, advised and prefetched to the device",
    "cuMemAllocManaged cuMemAdvise_v2 cuMemPrefetchAsync_v2 cuMemFree_v2",
    free,
)
def _prefetched(driver: Driver, size: int) -> int:
    address = driver.out("cuMemAllocManaged", size, 1)
    driver.call("cuMemAdvise_v2", address, size, 3, ON_DEVICE)
    driver.call("cuMemPrefetchAsync_v2", address, size, ON_DEVICE, 0, 0)
    driver.wait()
    return address


# --- host memory that the device can reach ---------------------------------------------------------------


def _free_host(driver: Driver, taken: int) -> None:
    driver.call("cuMemFreeHost", ctypes.c_void_p(taken))


@PLAIN.add("host memory", "pinned", "cuMemHostAlloc cuMemFreeHost", _free_host, kind="none")
def _pinned(driver: Driver, size: int) -> int:
    return driver.out("cuMemHostAlloc", size, 2)


@PLAIN.add("host memory", "pinned by cuMemAllocHost", "cuMemAllocHost_v2 cuMemFreeHost", _free_host, kind="none")
def _pinned_plainly(driver: Driver, size: int) -> int:
    return driver.out("cuMemAllocHost_v2", size)


def _unregister(driver: Driver, taken: Any) -> None:
    driver.call("cuMemHostUnregister", ctypes.byref(taken))


@PLAIN.add("host memory", "registered", "cuMemHostRegister_v2 cuMemHostUnregister", _unregister, kind="none")
def _registered(driver: Driver, size: int) -> Any:
    buffer = ctypes.create_string_buffer(size)
    driver.call("cuMemHostRegister_v2", ctypes.byref(buffer), size, 0)
    return buffer


# --- stream-ordered ---------------------------------------------------------------------------------------


def _from_current(symbol: str) -> Take:
    return lambda driver, size: driver.out(symbol, size, 0)


def _back_to_pool(symbol: str) -> Give:
    def give(driver: Driver, taken: int) -> None:
        driver.call(symbol, taken, 0)
        driver.call("cuStreamSynchronize_ptsz" if symbol.endswith("_ptsz") else "cuStreamSynchronize", 0)
        driver.wait()

    return give


for _twin, _label in (("", ""), ("_ptsz", ", per-thread stream")):
    PLAIN.add(
        "stream-ordered",
        f"device's pool{_label}",
        f"cuMemAllocAsync{_twin} cuMemFreeAsync{_twin}",
        _back_to_pool(f"cuMemFreeAsync{_twin}"),
    )(_from_current(f"cuMemAllocAsync{_twin}"))


def _destroy_pool(driver: Driver, taken: tuple[int, int]) -> None:
    address, pool = taken
    driver.call("cuMemFreeAsync", address, 0)
    driver.wait()
    driver.call("cuMemPoolDestroy", pool)


def _from_pool(symbol: str) -> Take:
    def take(driver: Driver, size: int) -> tuple[int, int]:
        pool = driver.out("cuMemPoolCreate", pool_properties())
        try:
            return driver.out(symbol, size, pool, 0), pool
        except Exception:
            driver.call("cuMemPoolDestroy", pool)
            raise

    return take


for _twin, _label in (("", ""), ("_ptsz", ", per-thread stream")):
    PLAIN.add(
        "stream-ordered",
        f"pool of one's own{_label}",
        f"cuMemPoolCreate cuMemAllocFromPoolAsync{_twin} cuMemFreeAsync cuMemPoolDestroy",
        _destroy_pool,
    )(_from_pool(f"cuMemAllocFromPoolAsync{_twin}"))


def _keep(driver: Driver, pool: int, most_bytes: int) -> None:
    """Set how much of what is free a pool keeps."""
    driver.call("cuMemPoolSetAttribute", pool, 4, ctypes.byref(ctypes.c_uint64(most_bytes)))


def _trim(driver: Driver, taken: int) -> None:
    driver.call("cuMemPoolTrimTo", taken, 0)
    _keep(driver, taken, 0)


@PLAIN.add(
    "stream-ordered",
    "freed, and kept by its pool",
    "cuMemAllocAsync cuMemFreeAsync cuMemPoolTrimTo",
    _trim,
)
def _kept(driver: Driver, size: int) -> int:
    pool = driver.out("cuDeviceGetDefaultMemPool", 0)
    _keep(driver, pool, (1 << 64) - 1)
    try:
        address = driver.out("cuMemAllocAsync", size, 0)
    except Exception:
        _keep(driver, pool, 0)
        raise
    driver.call("cuMemFreeAsync", address, 0)
    driver.wait()
    return pool


@PLAIN.add(
    "stream-ordered",
    "of a pool that is destroyed meanwhile",
    "cuMemPoolCreate cuMemAllocFromPoolAsync cuMemPoolDestroy cuMemFreeAsync",
    _back_to_pool("cuMemFreeAsync"),
)
def _orphaned(driver: Driver, size: int) -> int:
    address, pool = _from_pool("cuMemAllocFromPoolAsync")(driver, size)
    driver.wait()
    driver.call("cuMemPoolDestroy", pool)
    return int(address)


@PLAIN.add("stream-ordered", "many small pieces", "cuMemAllocAsync cuMemFreeAsync", lambda d, t: _free_many(d, t))
def _many(driver: Driver, size: int) -> list[int]:
    taken: list[int] = []
    try:
        for _ in range(size // MIB):
            taken.append(driver.out("cuMemAllocAsync", MIB, 0))
    except Exception:
        _free_many(driver, taken)
        raise
    return taken


def _free_many(driver: Driver, taken: list[int]) -> None:
    for address in taken:
        driver.call("cuMemFreeAsync", address, 0)
    driver.wait()
