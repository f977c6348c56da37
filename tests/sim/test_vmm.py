"""Virtual memory management: memory and addresses apart, as PyTorch's expandable segments use them."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20

SETUP = """
    def properties(handle_type=0):
        wanted = cuda.CUmemAllocationProp()
        wanted.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.requestedHandleTypes = cuda.CUmemAllocationHandleType(handle_type)
        return wanted

    def open_up(address, size):
        access = cuda.CUmemAccessDesc()
        access.location = properties().location
        access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ok(*cuda.cuMemSetAccess(address, size, [access], 1))

    def byte_at(address):
        out = bytearray(1)
        ok(*cuda.cuMemcpyDtoH(out, address, 1))
        return out[0]

    start()
    before = free_bytes()
"""


def test_memory_is_charged_until_neither_handle_nor_mapping_holds_it(node: Any) -> None:
    taken = node.run(
        SETUP
        + """
    address = int(ok(*cuda.cuMemAddressReserve(64 * MIB, 0, 0, 0)))
    steps = [before - free_bytes()]
    handle = ok(*cuda.cuMemCreate(64 * MIB, properties(), 0))
    steps.append(before - free_bytes())
    ok(*cuda.cuMemMap(address, 64 * MIB, 0, handle, 0))
    ok(*cuda.cuMemRelease(handle))
    steps.append(before - free_bytes())
    again = ok(*cuda.cuMemRetainAllocationHandle(address))
    ok(*cuda.cuMemUnmap(address, 64 * MIB))
    steps.append(before - free_bytes())
    ok(*cuda.cuMemRelease(again))
    steps.append(before - free_bytes())
    ok(*cuda.cuMemAddressFree(address, 64 * MIB))
    say(steps)
    """
    )

    assert taken == [0, 64 * MIB, 64 * MIB, 64 * MIB, 0]


def test_one_piece_of_memory_can_be_seen_at_two_addresses(node: Any) -> None:
    assert (
        node.run(
            SETUP
            + """
    address = int(ok(*cuda.cuMemAddressReserve(8 * MIB, 0, 0, 0)))
    handle = ok(*cuda.cuMemCreate(4 * MIB, properties(), 0))
    ok(*cuda.cuMemMap(address, 4 * MIB, 0, handle, 0))
    ok(*cuda.cuMemMap(address + 4 * MIB, 4 * MIB, 0, handle, 0))
    open_up(address, 8 * MIB)
    ok(*cuda.cuMemsetD8(address + 100, 42, 1))
    say(byte_at(address + 4 * MIB + 100))
    """
        )
        == 42
    )


def test_a_mapping_without_access_cannot_be_written(node: Any) -> None:
    assert (
        node.run(
            SETUP
            + """
    address = int(ok(*cuda.cuMemAddressReserve(2 * MIB, 0, 0, 0)))
    ok(*cuda.cuMemMap(address, 2 * MIB, 0, ok(*cuda.cuMemCreate(2 * MIB, properties(), 0)), 0))
    say(code(*cuda.cuMemsetD8(address, 1, 1)))
    """
        )
        == 1
    )


def test_a_copy_may_run_over_pieces_that_stand_side_by_side(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    address = int(ok(*cuda.cuMemAddressReserve(4 * MIB, 0, 0, 0)))
    for at in (address, address + 2 * MIB):
        ok(*cuda.cuMemMap(at, 2 * MIB, 0, ok(*cuda.cuMemCreate(2 * MIB, properties(), 0)), 0))
    open_up(address, 4 * MIB)
    ok(*cuda.cuMemsetD8(address, 9, 4 * MIB))
    say([byte_at(address + 2 * MIB - 1), byte_at(address + 2 * MIB), code(*cuda.cuMemsetD8(address, 9, 4 * MIB + 1))])
    """
    ) == [9, 9, 1]


def test_wrong_use_is_refused(node: Any) -> None:
    answers = node.run(
        SETUP
        + """
    address = int(ok(*cuda.cuMemAddressReserve(4 * MIB, 0, 0, 0)))
    handle = ok(*cuda.cuMemCreate(2 * MIB, properties(), 0))
    ok(*cuda.cuMemMap(address, 2 * MIB, 0, handle, 0))
    say({
        "not a multiple of 2 MiB": code(*cuda.cuMemCreate(MIB, properties(), 0)),
        "mapped already": code(*cuda.cuMemMap(address, 2 * MIB, 0, handle, 0)),
        "not reserved": code(*cuda.cuMemMap(address + 4 * MIB, 2 * MIB, 0, handle, 0)),
        "no such handle": code(*cuda.cuMemRelease(cuda.CUmemGenericAllocationHandle(5))),
        "still mapped": code(*cuda.cuMemAddressFree(address, 4 * MIB)),
        "half of it mapped": code(*cuda.cuMemUnmap(address, 4 * MIB)),
        "not reserved, to unmap": code(*cuda.cuMemUnmap(address + 2 * MIB, 4 * MIB)),
        "more than the board": code(*cuda.cuMemCreate(200 * GIB, properties(), 0)),
    })
    """
    )

    assert answers.pop("more than the board") == 2
    assert set(answers.values()) == {1}, answers


def test_a_part_of_an_allocation_cannot_be_mapped_and_what_is_not_mapped_can_be_unmapped(node: Any) -> None:
    """As a driver 580.159.04 answers (benchmarks/results/calls-2026-11-30-nvidia-h200.json)."""
    assert node.run(
        SETUP
        + """
    address = int(ok(*cuda.cuMemAddressReserve(4 * MIB, 0, 0, 0)))
    handle = ok(*cuda.cuMemCreate(4 * MIB, properties(), 0))
    say([
        code(*cuda.cuMemMap(address, 2 * MIB, 2 * MIB, handle, 0)),
        code(*cuda.cuMemMap(address, 2 * MIB, 0, handle, 0)),
        code(*cuda.cuMemUnmap(address, 4 * MIB)),
        code(*cuda.cuMemMap(address, 4 * MIB, 0, handle, 0)),
        code(*cuda.cuMemUnmap(address, 4 * MIB)),
        code(*cuda.cuMemUnmap(address, 4 * MIB)),
        code(*cuda.cuMemRelease(handle)),
        code(*cuda.cuMemAddressFree(address, 4 * MIB)),
        code(*cuda.cuMemUnmap(address, 4 * MIB)),
    ])
    """
    ) == [801, 801, 0, 0, 0, 0, 0, 0, 1]


def test_memory_handed_over_by_descriptor_is_shared_and_charged_once(node: Any) -> None:
    assert node.run(
        SETUP
        + """
    import socket
    handle = ok(*cuda.cuMemCreate(4 * MIB, properties(1), 0))
    kind = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    descriptor = ok(*cuda.cuMemExportToShareableHandle(handle, kind, 0))
    address = int(ok(*cuda.cuMemAddressReserve(8 * MIB, 0, 0, 0)))
    ok(*cuda.cuMemMap(address, 4 * MIB, 0, handle, 0))
    imported = ok(*cuda.cuMemImportFromShareableHandle(descriptor, kind))
    os.close(descriptor)
    ok(*cuda.cuMemMap(address + 4 * MIB, 4 * MIB, 0, imported, 0))
    open_up(address, 8 * MIB)
    ok(*cuda.cuMemsetD8(address, 7, 4 * MIB))
    say([byte_at(address + 8 * MIB - 1), before - free_bytes()])
    """
    ) == [7, 4 * MIB]
