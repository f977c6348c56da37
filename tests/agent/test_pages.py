"""A tenant cannot change its limit: what it may try with the descriptors it is given.

Tried with the agent's own user, the most a tenant could be on a shared machine.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vgpu.pages import TenantPages, max_slots

F_ADD_SEALS = 1033
F_SEAL_GROW = 4
Ask = Callable[..., Any]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@pytest.fixture
def attached(agent: Any, attach: Ask) -> Any:
    return attach(agent, agent.claim(share="1/4", memory="10GiB"))


def test_the_control_page_is_not_mapped_writable(attached: Any) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(attached.control_fd, 512, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def test_the_control_page_reopened_through_proc_is_not_writable_either(attached: Any) -> None:
    """A descriptor that is merely read-only can be reopened writable; the seal holds."""
    reopened = os.open(f"/proc/self/fd/{attached.control_fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            mmap.mmap(reopened, 512, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        with pytest.raises(PermissionError):
            os.pwrite(reopened, b"\xff" * 8, 80)
        with pytest.raises(PermissionError):
            os.ftruncate(reopened, 0)
    finally:
        os.close(reopened)


def test_a_read_only_mapping_of_the_control_page_stays_read_only(attached: Any) -> None:
    address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, attached.control_fd, 0)
    assert address != ctypes.c_void_p(-1).value

    answer = libc.mprotect(address, 4096, mmap.PROT_READ | mmap.PROT_WRITE)

    assert (answer, ctypes.get_errno()) == (-1, 13)
    libc.munmap(address, 4096)


@pytest.mark.parametrize("page", ["control_fd", "usage_fd"])
def test_neither_page_is_cut_short_or_sealed_further(attached: Any, page: str) -> None:
    """A shorter page would end the agent by a bus error at its next look."""
    descriptor = getattr(attached, page)

    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 1 << 40)
    with pytest.raises(PermissionError):
        fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_GROW)
    with pytest.raises(PermissionError):
        fallocate(descriptor, 0, 1 << 30)


def fallocate(descriptor: int, mode: int, offset: int) -> None:
    """Call fallocate(2), of which Python has only the plain kind."""
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    if libc.fallocate(descriptor, mode, offset, 4096):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def test_no_hole_is_punched_into_the_control_page(attached: Any) -> None:
    """A hole reads as zeros: limits gone."""
    punch_hole, keep_size = 2, 1

    with pytest.raises(PermissionError):
        fallocate(attached.control_fd, punch_hole | keep_size, 0)

    assert attached.control()["memory_limit_bytes"] == 10 << 30


def test_after_all_that_the_limit_is_what_it_was(attached: Any) -> None:
    reopened = os.open(f"/proc/self/fd/{attached.control_fd}", os.O_RDWR)
    for attempt in (
        lambda: os.pwrite(reopened, b"\xff" * 512, 0),
        lambda: mmap.mmap(reopened, 512, prot=mmap.PROT_WRITE),
    ):
        with pytest.raises(PermissionError):
            attempt()
    os.close(reopened)

    assert attached.control()["memory_limit_bytes"] == 10 << 30


def test_what_a_tenant_writes_into_its_usage_is_never_believed_beyond_the_device(agent: Any, attach: Ask) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    attached = attach(agent, granted)
    total = agent.hub.devices()[0]["total_bytes"]

    attached.write_use(held=2**64 - 1, pending=2**64 - 1, launches=2**64 - 1)
    usage = agent.hub.usage(granted.claim["claim"])

    assert usage["devices"][0]["memory_used_bytes"] == total
    assert usage["devices"][0]["launches"] < 2**63
    assert agent.hub.health()["claims"] == 1


def test_a_tenant_that_spoils_its_whole_usage_page_spoils_its_own_figures_only(agent: Any, attach: Ask) -> None:
    spoiler, other = agent.claim("spoiler"), agent.claim("other")
    attached, honest = attach(agent, spoiler), attach(agent, other)
    honest.write_use(held=5 << 20, launches=3)

    with mmap.mmap(attached.usage_fd, 0) as page:
        page[:] = b"\xff" * len(page)
    agent.hub.release_claim(spoiler.claim["claim"])

    usage = agent.hub.usage(other.claim["claim"])
    assert usage["devices"][0]["memory_used_bytes"] == 5 << 20
    assert usage["devices"][0]["launches"] == 3


def test_slots_end_at_the_most_a_claim_may_have() -> None:
    pages = TenantPages(1)
    slots = [pages.take_slot(pid) for pid in range(1, max_slots() + 1)]

    assert None not in slots
    assert pages.take_slot(5000) is None
    assert slots[7] is not None
    pages.clear_slot(slots[7])
    freed = pages.take_slot(5000)
    assert freed is not None
    assert (freed.index, freed.generation) == (7, slots[7].generation + 1)
    pages.close()


def test_closed_pages_are_refused_not_read() -> None:
    pages = TenantPages(1)
    pages.close()

    with pytest.raises(ValueError, match="closed"):
        pages.signature()
