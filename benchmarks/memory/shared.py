"""Memory that two processes of one slice have in common: charged once, to the one that made it.

The other process is this program again (`python shared.py HOW`), which opens what it is told on its standard input
and keeps it until that ends.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver import POSIX_FD, Driver, NotInDriverError, access_to, pool_properties
from mapped import create, map_in, release
from plain import free
from ways import Take, Ways

SHARED = Ways()
FAMILY = "shared with another process"


class Handle64(ctypes.Structure):
    """CUipcMemHandle, which travels by value."""

    _fields_ = [("data", ctypes.c_ubyte * 64)]


@dataclass
class Both:
    """The maker's memory and the process that has it open.

    Attributes:
        undo: Gives the maker's part back.
    """

    undo: Callable[[], None]
    other: subprocess.Popen[str]
    line: socket.socket


def _start_other(how: str, words: bytes, descriptors: tuple[int, ...]) -> tuple[subprocess.Popen[str], socket.socket]:
    """Start the other process, hand over, and wait until it has opened the memory."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        other = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), how, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            text=True,
        )
    socket.send_fds(ours, [words], list(descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
    answer = ours.recv(256).decode()
    if answer != "open":
        ours.close()
        other.wait()
        # That memory of cuMemCreate can be opened as external memory is said nowhere.
        kind = NotInDriverError if how == "external" else RuntimeError
        raise kind(f"{how}: the other process says: {answer or 'nothing'}")
    return other, ours


def _both(undo: Callable[[], None], how: str, words: bytes, descriptors: tuple[int, ...]) -> Both:
    """Return the memory with the other process that has opened it; on failure the maker's part is given back."""
    try:
        return Both(undo, *_start_other(how, words, descriptors))
    except Exception:
        undo()
        raise


def _give(driver: Driver, taken: Both) -> None:
    taken.line.close()
    if taken.other.wait() != 0:
        raise RuntimeError("the other process could not give its part back")
    taken.undo()


def _export(symbol: str, driver: Driver, handle: int) -> int:
    descriptor = ctypes.c_int(-1)
    driver.call(symbol, ctypes.byref(descriptor), handle, POSIX_FD, 0)
    return descriptor.value


def _by_ipc(how: str) -> Take:
    def take(driver: Driver, size: int) -> Both:
        address = driver.out("cuMemAlloc_v2", size)
        handle = Handle64()
        driver.call("cuIpcGetMemHandle", ctypes.byref(handle), address)
        return _both(lambda: free(driver, address), how, bytes(handle), ())

    return take


for _symbol in ("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"):
    SHARED.add(
        FAMILY, f"opened by {_symbol}", f"{_symbol} cuIpcCloseMemHandle cuIpcGetMemHandle", _give, kind="another's"
    )(_by_ipc(_symbol))


def _by_descriptor(how: str) -> Take:
    def take(driver: Driver, size: int) -> Both:
        handle = create(driver, size, shareable=True)
        descriptor = _export("cuMemExportToShareableHandle", driver, handle)
        return _both(lambda: release(driver, handle), how, struct.pack("=Q", size), (descriptor,))

    return take


SHARED.add(
    FAMILY,
    "imported by its descriptor, and mapped",
    "cuMemExportToShareableHandle cuMemImportFromShareableHandle",
    _give,
    kind="another's",
)(_by_descriptor("vmm"))
SHARED.add(
    FAMILY,
    "as external memory, and mapped",
    "cuImportExternalMemory cuExternalMemoryGetMappedBuffer cuDestroyExternalMemory",
    _give,
    kind="another's",
)(_by_descriptor("external"))


@SHARED.add(
    FAMILY,
    "from an imported pool",
    "cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle cuMemPoolExportPointer cuMemPoolImportPointer",
    _give,
    kind="another's",
)
def _pool(driver: Driver, size: int) -> Both:
    pool = driver.out("cuMemPoolCreate", pool_properties(shareable=True))
    # Before its pointers: a driver may export pointers only of pools that were exported.
    descriptor = _export("cuMemPoolExportToShareableHandle", driver, pool)
    try:
        address = driver.out("cuMemAllocFromPoolAsync", size, pool, 0)
    except Exception:
        os.close(descriptor)
        driver.call("cuMemPoolDestroy", pool)
        raise

    def undo() -> None:
        driver.call("cuMemFreeAsync", address, 0)
        driver.wait()
        driver.call("cuMemPoolDestroy", pool)

    data = ctypes.create_string_buffer(64)
    driver.wait()
    try:
        driver.call("cuMemPoolExportPointer", data, address)
    except Exception:
        os.close(descriptor)
        undo()
        raise
    return _both(undo, "pool", data.raw, (descriptor,))


# --- the other process ----------------------------------------------------------------------------------------


def _open_ipc(how: str, driver: Driver, words: bytes) -> Callable[[], None]:
    address = ctypes.c_uint64()
    driver.call(how, ctypes.byref(address), Handle64.from_buffer_copy(words), 1)
    return lambda: driver.call("cuIpcCloseMemHandle", address.value)


def _open_vmm(driver: Driver, words: bytes, descriptor: int) -> Callable[[], None]:
    size = struct.unpack("=Q", words)[0]
    handle = driver.out("cuMemImportFromShareableHandle", ctypes.c_void_p(descriptor), POSIX_FD)
    address = map_in(driver, handle, size)
    release(driver, handle)
    return lambda: driver.call("cuMemUnmap", address, size)


def _open_external(driver: Driver, words: bytes, descriptor: int) -> Callable[[], None]:
    size = struct.unpack("=Q", words)[0]
    desc = struct.pack("=i4xi12xQI68x", 1, descriptor, size, 0)
    external = driver.out("cuImportExternalMemory", desc)
    address = driver.out(
        "cuExternalMemoryGetMappedBuffer", ctypes.c_void_p(external), struct.pack("=QQI68x", 0, size, 0)
    )

    def close() -> None:
        free(driver, address)
        driver.call("cuDestroyExternalMemory", ctypes.c_void_p(external))

    return close


def _open_pool(driver: Driver, words: bytes, descriptor: int) -> Callable[[], None]:
    pool = driver.out("cuMemPoolImportFromShareableHandle", ctypes.c_void_p(descriptor), POSIX_FD, 0)
    driver.call("cuMemPoolSetAccess", pool, access_to(), 1)
    data = ctypes.create_string_buffer(words, 64)
    address = driver.out("cuMemPoolImportPointer", pool, data)
    return lambda: free(driver, address)


def main() -> None:
    """Open what is handed over, keep it until the other side hangs up, give it back."""
    how, line = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    words, descriptors, _flags, _sender = socket.recv_fds(line, 256, 1)
    try:
        driver = Driver()
        if how.startswith("cuIpc"):
            close = _open_ipc(how, driver, words)
        else:
            close = {"vmm": _open_vmm, "external": _open_external, "pool": _open_pool}[how](
                driver, words, descriptors[0]
            )
    except Exception as error:
        line.send(repr(error).encode()[:256])
        raise
    line.send(b"open")
    line.recv(1)
    close()


if __name__ == "__main__":
    main()
