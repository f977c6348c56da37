"""Contexts, what goes with them, what their limits reserve, and modules."""

from __future__ import annotations

import ctypes
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from driver import MIB, Driver, DriverError, ptx_with_array
from ways import Give, Take, Ways

CONTEXTS = Ways()
FAMILY = "contexts"

# A launch makes the driver load a module that it has only taken note of.
TOUCH = b"touch\0"


def _create(driver: Driver, symbol: str) -> int:
    """Return a new context; the primary one stays current."""
    parameters = {"cuCtxCreate_v3": (0, 0), "cuCtxCreate_v4": (0,)}.get(symbol, ())
    context = driver.out(symbol, *parameters, 0, 0)
    driver.out("cuCtxPopCurrent_v2")
    return context


def _destroy(symbol: str) -> Give:
    def give(driver: Driver, context: int) -> None:
        try:
            driver.call(symbol, ctypes.c_void_p(context))
        except DriverError:
            # What an old function declines must not be there for the ways that come after.
            driver.ask("cuCtxDestroy_v2", ctypes.c_void_p(context))
            raise

    return give


def _creating(symbol: str) -> Take:
    return lambda driver, size: _create(driver, symbol)


for _symbol, _gone in (
    ("cuCtxCreate", "cuCtxDestroy"),
    ("cuCtxCreate_v2", "cuCtxDestroy_v2"),
    ("cuCtxCreate_v3", "cuCtxDestroy_v2"),
    ("cuCtxCreate_v4", "cuCtxDestroy_v2"),
    ("cuCtxCreate_v2", "cuCtxDetach"),
):
    CONTEXTS.add(
        FAMILY,
        f"a context by {_symbol}, gone by {_gone}",
        f"{_symbol} {_gone}",
        _destroy(_gone),
        kind="overhead",
        size_bytes=None,
    )(_creating(_symbol))


def _is_primary_active(driver: Driver) -> bool:
    flags, active = ctypes.c_uint(0), ctypes.c_int(0)
    driver.call("cuDevicePrimaryCtxGetState", 0, ctypes.byref(flags), ctypes.byref(active))
    return active.value != 0


# More references than anything in this process holds.
MOST_REFERENCES = 64


def _primary_again(symbol: str) -> Give:
    """Return what makes the primary context go by `symbol`, and retains it anew.

    A context that is released goes with its last reference only, and a reset need not change how many there are: on an
    H200, after two resets one release was not enough.
    """

    def give(driver: Driver, taken: int) -> None:
        for _ in range(MOST_REFERENCES):
            driver.call(symbol, 0)
            if not _is_primary_active(driver):
                break
        else:
            raise RuntimeError(f"the primary context is there after {MOST_REFERENCES} times {symbol}")
        driver.context = driver.out("cuDevicePrimaryCtxRetain", 0)
        driver.call("cuCtxSetCurrent", ctypes.c_void_p(driver.context))

    return give


def _in_primary(driver: Driver, size: int) -> int:
    return driver.out("cuMemAlloc_v2", size)


for _symbol in (
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
):
    CONTEXTS.add(
        FAMILY,
        f"plain memory that goes by {_symbol}",
        f"cuDevicePrimaryCtxRetain cuMemAlloc_v2 {_symbol}",
        _primary_again(_symbol),
    )(_in_primary)


def _in_another(allocate: Callable[[Driver, int], object]) -> Take:
    def take(driver: Driver, size: int) -> int:
        context = driver.out("cuCtxCreate_v2", 0, 0)
        try:
            allocate(driver, size)
        except Exception:
            driver.call("cuCtxDestroy_v2", ctypes.c_void_p(context))
            raise
        driver.out("cuCtxPopCurrent_v2")
        return context

    return take


CONTEXTS.add(
    FAMILY,
    "plain memory that goes with its own context",
    "cuCtxCreate_v2 cuMemAlloc_v2 cuCtxDestroy_v2",
    _destroy("cuCtxDestroy_v2"),
)(_in_another(lambda driver, size: driver.out("cuMemAlloc_v2", size)))
CONTEXTS.add(
    FAMILY,
    "an array that goes with its own context",
    "cuCtxCreate_v2 cuArrayCreate_v2 cuCtxDestroy_v2",
    _destroy("cuCtxDestroy_v2"),
)(_in_another(lambda driver, size: driver.out("cuArrayCreate_v2", struct.pack("=QQiI", 4096, size >> 16, 0x20, 4))))


# --- green contexts ----------------------------------------------------------------------------------------


def _green(driver: Driver) -> int:
    """Return a green context of some of the SMs."""
    whole = ctypes.create_string_buffer(256)
    part = ctypes.create_string_buffer(256)
    count = ctypes.c_uint(1)
    driver.call("cuDeviceGetDevResource", 0, whole, 1)
    driver.call("cuDevSmResourceSplitByCount", part, ctypes.byref(count), whole, 0, 0, 8)
    desc = driver.out("cuDevResourceGenerateDesc", part, 1)
    return driver.out("cuGreenCtxCreate", ctypes.c_void_p(desc), 0, 1)


@CONTEXTS.add(
    FAMILY,
    "plain memory under a green context",
    "cuGreenCtxCreate cuMemAlloc_v2 cuMemFree_v2 cuGreenCtxDestroy",
    lambda driver, taken: _free_under_green(driver, *taken),
)
def _under_green(driver: Driver, size: int) -> tuple[int, int]:
    green = _green(driver)
    driver.call("cuCtxSetCurrent", ctypes.c_void_p(driver.out("cuCtxFromGreenCtx", ctypes.c_void_p(green))))
    try:
        return green, driver.out("cuMemAlloc_v2", size)
    except Exception:
        driver.call("cuGreenCtxDestroy", ctypes.c_void_p(green))
        raise
    finally:
        driver.call("cuCtxSetCurrent", ctypes.c_void_p(driver.context))


def _free_under_green(driver: Driver, green: int, address: int) -> None:
    driver.call("cuMemFree_v2", address)
    driver.call("cuGreenCtxDestroy", ctypes.c_void_p(green))


# --- what limits reserve -----------------------------------------------------------------------------------

STACK, FIFO, HEAP = 0, 1, 2


def _raise_limit(limit: int) -> Take:
    def take(driver: Driver, size: int) -> tuple[int, int]:
        before = driver.out("cuCtxGetLimit", limit)
        per_byte = 1
        if limit == STACK:
            per_byte = driver.out("cuDeviceGetAttribute", 16, 0) * driver.out("cuDeviceGetAttribute", 39, 0)
        driver.call("cuCtxSetLimit", limit, before + (size + per_byte - 1) // per_byte)
        return limit, before

    return take


def _lower_limit(driver: Driver, taken: tuple[int, int]) -> None:
    driver.call("cuCtxSetLimit", *taken)


for _limit, _label in ((HEAP, "heap of malloc in device code"), (FIFO, "buffer of printf"), (STACK, "stacks")):
    CONTEXTS.add("limits of a context", _label, "cuCtxSetLimit", _lower_limit)(_raise_limit(_limit))


# --- modules and libraries ----------------------------------------------------------------------------------


def _touch(driver: Driver, module: int) -> None:
    function = driver.out("cuModuleGetFunction", ctypes.c_void_p(module), TOUCH)
    driver.call("cuLaunchKernel", ctypes.c_void_p(function), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    driver.wait()


def _load(symbol: str) -> Take:
    def take(driver: Driver, size: int) -> int:
        image = ptx_with_array(size)
        if symbol.endswith(("Load", "FromFile")):
            with tempfile.NamedTemporaryFile(suffix=".ptx", delete=False) as file:
                file.write(image.rstrip(b"\0"))
            try:
                return _loaded(driver, symbol, file.name.encode() + b"\0")
            finally:
                Path(file.name).unlink()
        return _loaded(driver, symbol, image)

    return take


def _loaded(driver: Driver, symbol: str, what: bytes) -> int:
    options = {"cuModuleLoadDataEx": (0, 0, 0)}.get(symbol, (0,) * 6 if symbol.startswith("cuLibrary") else ())
    loaded = driver.out(symbol, what, *options)
    if symbol.startswith("cuLibrary"):
        _touch(driver, driver.out("cuLibraryGetModule", ctypes.c_void_p(loaded)))
    else:
        _touch(driver, loaded)
    return loaded


def _unload(symbol: str) -> Give:
    return lambda driver, taken: driver.call(symbol, ctypes.c_void_p(taken))


for _symbol in (
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
):
    _gone = "cuLibraryUnload" if _symbol.startswith("cuLibrary") else "cuModuleUnload"
    CONTEXTS.add(
        "modules",
        f"device array of a module by {_symbol}",
        f"{_symbol} {_gone}",
        _unload(_gone),
        kind="overhead",
        size_bytes=128 * MIB,
    )(_load(_symbol))
