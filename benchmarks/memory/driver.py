"""The CUDA driver's functions by their exported symbols, old versions and per-thread-stream twins included.

Nothing but ctypes: what is walked is the driver's own interface, as any program meets it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

MIB = 1 << 20
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_FOUND = 500
NOT_SUPPORTED = 801

# Of cuda.h: CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_STREAM_NON_BLOCKING.
DEVICE = 1
POSIX_FD = 1
NON_BLOCKING = 1


class NotInDriverError(Exception):
    """The driver has no such function, or says that it does not support it."""


class DriverError(Exception):
    """The driver's answer was another than success.

    Attributes:
        code: What it was.
    """

    def __init__(self, symbol: str, code: int) -> None:
        super().__init__(f"{symbol} answered {code}")
        self.code = code


class Driver:
    """libcuda.so.1, with the primary context of the first device current."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = self.out("cuDevicePrimaryCtxRetain", 0)
        self.call("cuCtxSetCurrent", ctypes.c_void_p(self.context))

    def has(self, symbol: str) -> bool:
        """Return whether the driver exports `symbol`."""
        return hasattr(self._library, symbol)

    def ask(self, symbol: str, *arguments: Any) -> int:
        """Call and return the driver's answer. Integers travel as 64 bits, `bytes` as a pointer to a copy."""
        if not self.has(symbol):
            raise NotInDriverError(symbol)
        return int(getattr(self._library, symbol)(*map(_as_c, arguments)))

    def call(self, symbol: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = self.ask(symbol, *arguments)
        if code in (NOT_FOUND, NOT_SUPPORTED):
            raise NotInDriverError(symbol)
        if code != 0:
            raise DriverError(symbol, code)

    def out(self, symbol: str, *arguments: Any) -> int:
        """Return the 64 bits that a call writes where its first argument points."""
        result = ctypes.c_uint64(0)
        self.call(symbol, ctypes.byref(result), *arguments)
        return result.value

    def stream(self) -> int:
        """Return a new stream that waits for no other."""
        return self.out("cuStreamCreate", NON_BLOCKING)

    def wait(self) -> None:
        """Wait for all that was submitted."""
        self.call("cuCtxSynchronize")


def _as_c(argument: Any) -> Any:
    if isinstance(argument, bool) or not isinstance(argument, int):
        return argument
    return ctypes.c_uint64(argument & (1 << 64) - 1)


# --- structures ----------------------------------------------------------------------------------------


def allocation_properties(shareable: bool = False, for_tiles: bool = False) -> bytes:
    """Return a CUmemAllocationProp for memory of the first device; sparse arrays take memory that is `for_tiles`."""
    return struct.pack("=iiii8xBBH4x", 1, POSIX_FD if shareable else 0, DEVICE, 0, 0, 0, int(for_tiles))


def pool_properties(shareable: bool = False) -> bytes:
    """Return a CUmemPoolProps for memory of the first device."""
    return struct.pack("=iiii72x", 1, POSIX_FD if shareable else 0, DEVICE, 0)


def array_shape(size_bytes: int) -> bytes:
    """Return a CUDA_ARRAY_DESCRIPTOR of four floats an element, 64 KiB a row."""
    return struct.pack("=QQiI", 4096, size_bytes >> 16, 0x20, 4)


def array_shape_v1(size_bytes: int) -> bytes:
    """Return the same as in CUDA 2."""
    return struct.pack("=IIiI", 4096, size_bytes >> 16, 0x20, 4)


def array_shape_3d(size_bytes: int, flags: int = 0, depth: int = 0) -> bytes:
    """Return a CUDA_ARRAY3D_DESCRIPTOR of four floats an element, 64 KiB a row."""
    return struct.pack("=QQQiII4x", 4096, (size_bytes >> 16) // max(depth, 1), depth, 0x20, 4, flags)


def array_shape_3d_v1(size_bytes: int) -> bytes:
    """Return the same as in CUDA 2."""
    return struct.pack("=IIIiII", 4096, size_bytes >> 16, 0, 0x20, 4, 0)


def tile(resource: int, is_mipmap: bool, rows: int, handle: int) -> bytes:
    """Return a CUarrayMapInfo: the first `rows` rows, 4096 wide, to the memory of `handle`; 0 unmaps."""
    operation = 1 if handle else 2
    level = struct.pack("=8I", 0, 0, 0, 0, 0, 4096, rows, 1)
    return struct.pack("=i4xQi4x32siiQQII8x", int(is_mipmap), resource, 0, level, operation, 0, handle, 0, 1, 0)


def whole(resource: int, is_mipmap: bool, size: int, handle: int) -> bytes:
    """Return a CUarrayMapInfo: the `size` bytes of an array that has no tiles to the memory of `handle`."""
    tail = struct.pack("=I4xQQ8x", 0, 0, size)
    return struct.pack("=i4xQi4x32siiQQII8x", int(is_mipmap), resource, 1, tail, 1, 0, handle, 0, 1, 0)


def allocation_node(size_bytes: int) -> bytes:
    """Return CUDA_MEM_ALLOC_NODE_PARAMS for memory of the first device; the address is at `NODE_ADDRESS`."""
    return pool_properties() + struct.pack("=QQQQ", 0, 0, size_bytes, 0)


NODE_ADDRESS = 112


def any_node(params: bytes, kind: int = 10) -> bytes:
    """Return CUgraphNodeParams with the parameters of one kind of node; 10 is an allocation."""
    return struct.pack("=i12x232s8x", kind, params)


def access_to(addresses: Sequence[int] = (0,)) -> bytes:
    """Return CUmemAccessDesc that let devices read and write."""
    return b"".join(struct.pack("=iii", DEVICE, device, 3) for device in addresses)


def ptx_with_array(size_bytes: int) -> bytes:
    """Return the text of a module with a device array of so many bytes, and a function that uses it."""
    return (
        ".version 7.0\n.target sm_50\n.address_size 64\n"
        f".visible .global .align 4 .b8 large[{size_bytes}];\n"
        ".visible .entry touch()\n{\n.reg .b64 %p;\n.reg .b32 %v;\n"
        "mov.u64 %p, large;\nmov.u32 %v, 1;\nst.global.u32 [%p], %v;\nret;\n}\n"
    ).encode() + b"\0"
