"""A claim's two pages, as the agent holds them.

The layout and all access to the memory are native (`native/agent/agent.c`); this is
their face towards Python. What comes from a usage page was written by a tenant.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from jupyter_vgpu import _agent_api
from jupyter_vgpu.errors import NativeLibraryError
from jupyter_vgpu.native import AGENT_DECLARATIONS, AGENT_LIBRARY, present

LAYOUT = 3  # JVGPU_LAYOUT in native/include/jvgpu/pages.h; checked against the library

# JVGPU_ATTACH_* in native/include/jvgpu/pages.h
ATTACH_OK = 0
ATTACH_REFUSED = 1
ATTACH_VERSION = 2
ATTACH_FULL = 3

SECRET_HEX_DIGITS = 64


@dataclass(frozen=True)
class Reading:
    """What one process says of one device. Not to be believed further than that.

    Attributes:
        held_bytes: Memory granted by the driver.
        pending_bytes: Memory reserved, not yet answered by the driver.
        launches: Launches, graph launches included.
        waited_ns: Time with work in flight, less the GPU time it had.
        busy_ns: GPU time.
        refused: Allocations refused for want of room in the slice.
        gated_ns: Time that launches stood at a closed gate or at the bound of what may be in flight.
        throttled: Launches that did.
        sm_ns: GPU time, times the part of the SMs that the launches could fill.
        allocations: Live allocations.
        ahead_ns: Of `busy_ns`, what was charged too much and is taken off what is charged next.
    """

    held_bytes: int
    pending_bytes: int
    launches: int
    waited_ns: int
    busy_ns: int
    refused: int
    gated_ns: int = 0
    throttled: int = 0
    sm_ns: int = 0
    allocations: int = 0
    ahead_ns: int = 0

    @property
    def granted_bytes(self) -> int:
        """What the process holds or has reserved."""
        return self.held_bytes + self.pending_bytes


@dataclass(frozen=True)
class Slot:
    """A process's place in the usage page."""

    index: int
    generation: int


@cache
def native_parts() -> tuple[Any, Any]:
    """Return cffi's interface and the loaded library.

    Raises:
        NativeLibraryError: The library is missing, does not load, or has another layout.
    """
    ffi = _interface()
    try:
        library: Any = ffi.dlopen(str(present(AGENT_LIBRARY)))
    except OSError as error:
        raise NativeLibraryError(f"{AGENT_LIBRARY} does not load: {error}") from error
    if (layout := library.jvgpu_agent_layout()) != LAYOUT:
        raise NativeLibraryError(
            f"{AGENT_LIBRARY} has page layout {layout}, this package needs {LAYOUT}: reinstall jupyter-vgpu"
        )
    return ffi, library


def _interface() -> Any:
    """Return cffi's interface; to have the declarations read anew is 20 ms of each start of `jupyter vgpu run`."""
    declarations = present(AGENT_DECLARATIONS).read_bytes()
    if hashlib.sha256(declarations).hexdigest() == _agent_api.MADE_FROM:
        return _agent_api.ffi

    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations.decode())
    return ffi


def max_slots() -> int:
    """Return how many processes one claim may have at a time."""
    return int(native_parts()[1].jvgpu_agent_max_slots())


def request_bytes() -> int:
    """Return the size of an attach request; anything else is malformed."""
    return int(native_parts()[1].jvgpu_agent_request_bytes())


def parse_request(request: bytes) -> tuple[int, str]:
    """Return the status that an attach request deserves so far, and the secret it carries.

    The status is `ATTACH_OK` for a well-formed request, otherwise `ATTACH_REFUSED` or `ATTACH_VERSION`
    with an empty secret.
    """
    ffi, library = native_parts()
    secret_hex = ffi.new(f"char[{SECRET_HEX_DIGITS + 1}]")
    status = int(library.jvgpu_agent_parse_request(ffi.from_buffer(request), len(request), secret_hex))
    return status, ffi.string(secret_hex).decode("ascii", "replace") if status == ATTACH_OK else ""


def build_reply(status: int, message: str = "", slot: Slot | None = None) -> bytes:
    """Return an attach reply, ready to send.

    Args:
        status: `ATTACH_*`.
        message: For the tenant's eyes when refused; cut to what the reply holds.
        slot: The slot given out, with `ATTACH_OK`.
    """
    ffi, library = native_parts()
    reply = bytearray(library.jvgpu_agent_reply_bytes())
    index, generation = (slot.index, slot.generation) if slot else (0, 0)
    text = message.encode("ascii", "replace")
    library.jvgpu_agent_fill_reply(ffi.from_buffer(reply), status, index, generation, text)
    return bytes(reply)


class TenantPages:
    """Both pages of one claim: made, mapped and sealed here, gone with `close`."""

    def __init__(self, device_count: int) -> None:
        """Make the pages.

        Args:
            device_count: Devices of the claim, 1..16.

        Raises:
            NativeLibraryError: The host kernel refuses (no memfd, no seals), or the library is missing.
        """
        self._ffi, self._library = native_parts()
        self.device_count = device_count
        # Read into again and again: pages are the event loop's, and each busy tenant is read ten times a second.
        self._reading = self._ffi.new("jvgpu_reading_t *")
        self._tenant = self._library.jvgpu_tenant_create(device_count)
        if self._tenant == self._ffi.NULL:
            error = os.strerror(self._ffi.errno)
            raise NativeLibraryError(
                f"the host kernel gives no sealed page ({error}): Linux 5.1 or later with memfd_create is needed"
            )

    def _open(self) -> Any:
        """Return the native object; asking after `close` is a fault of ours and must not reach native code."""
        if self._tenant == self._ffi.NULL:
            raise ValueError("these pages are closed")
        return self._tenant

    def native(self) -> Any:
        """Return the native object, for the governor; it stays this object's."""
        return self._open()

    @property
    def control_fd(self) -> int:
        """Descriptor of the control page; it stays this object's."""
        return int(self._library.jvgpu_tenant_control_fd(self._open()))

    @property
    def usage_fd(self) -> int:
        """Descriptor of the usage page; it stays this object's."""
        return int(self._library.jvgpu_tenant_usage_fd(self._open()))

    def set_device(self, index: int, uuid: str, memory_limit_bytes: int, share_ppm: int, ceiling_ppm: int) -> None:
        """Write one device's limits; tenants see them at once.

        Args:
            index: The device's place in the claim.
            uuid: `"GPU-…"`.
            memory_limit_bytes: What the tenant's processes together may hold.
            share_ppm: Promised part of the device's time, 1..1,000,000.
            ceiling_ppm: Most it may use, share..1,000,000.

        Raises:
            IndexError: The claim has no such device.
        """
        raw = UUID(uuid.removeprefix("GPU-")).bytes
        if self._library.jvgpu_tenant_set_device(self._open(), index, raw, memory_limit_bytes, share_ppm, ceiling_ppm):
            raise IndexError(index)

    def set_overhead(self, index: int, overhead_bytes: int) -> None:
        """Write what the device at `index` holds for the tenant beyond its allocations; it counts against the limit."""
        if self._library.jvgpu_tenant_set_overhead(self._open(), index, overhead_bytes):
            raise IndexError(index)

    def set_contenders(self, index: int, contenders: int) -> None:
        """Write how many processes, of any tenant, launched on the device at `index` lately."""
        if self._library.jvgpu_tenant_set_contenders(self._open(), index, contenders):
            raise IndexError(index)

    def release(self) -> None:
        """Mark the claim released: every later allocation of its processes is refused."""
        self._library.jvgpu_tenant_release(self._open())

    def take_slot(self, pid: int) -> Slot | None:
        """Return a slot for the process `pid` (of the host), or `None` when all are taken."""
        generation = self._ffi.new("uint32_t *")
        index = self._library.jvgpu_tenant_slot_take(self._open(), pid, generation)
        return None if index < 0 else Slot(index, int(generation[0]))

    def clear_slot(self, slot: Slot) -> None:
        """Clear the slot of a process that is gone, and with it what it held."""
        if self._library.jvgpu_tenant_slot_clear(self._open(), slot.index):
            raise IndexError(slot.index)

    def signature(self) -> int:
        """Return a figure that changes whenever a process says something new; far cheaper than reading."""
        return int(self._library.jvgpu_tenant_signature(self._open()))

    def read(self, slot: Slot, index: int) -> Reading:
        """Return what the process in `slot` says of the claim's device at `index`."""
        reading = self._reading
        if self._library.jvgpu_tenant_slot_read(self._open(), slot.index, index, reading):
            raise IndexError((slot.index, index))
        return Reading(
            reading.held_bytes,
            reading.pending_bytes,
            reading.launches,
            reading.waited_ns,
            reading.busy_ns,
            reading.refused,
            reading.gated_ns,
            reading.throttled,
            reading.sm_ns,
            reading.allocations,
            reading.ahead_ns,
        )

    def close(self) -> None:
        """Unmap and close. The pages live on in the processes that have them, without a heartbeat."""
        self._library.jvgpu_tenant_destroy(self._tenant)
        self._tenant = self._ffi.NULL


class Pulse:
    """The agent's sign of life in all claims' pages, and the question whether anybody has said anything new in them.

    One native call for all: what Python knows of each claim is not touched where nothing has changed.
    """

    def __init__(self) -> None:
        """Start with no pages.

        Raises:
            NativeLibraryError: The library is missing.
        """
        self._ffi, self._library = native_parts()
        self.keep(())

    def keep(self, pages: Sequence[TenantPages]) -> None:
        """Go on with these pages and no others. Before any of those it had so far is closed."""
        self._tenants = self._ffi.new("jvgpu_tenant_t *[]", [each.native() for each in pages])
        self._signatures = self._ffi.new("uint64_t[]", len(pages))
        self._count = len(pages)

    def beat(self) -> bool:
        """Say that the agent lives, now; return whether any page says something else than at the last beat.

        At the first beat after `keep` all do.
        """
        return bool(self._library.jvgpu_tenants_beat(self._tenants, self._count, self._signatures))
