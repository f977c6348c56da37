"""How long copies take: over the link to the host, and within the board's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# What is measured counts when all of it was queued behind other work in time; else it is queued again.
MEASURED = """
    BYTES = 64 * MIB
    start()
    first, last = ok(*cuda.cuEventCreate(0)), ok(*cuda.cuEventCreate(0))
    here, there = ok(*cuda.cuMemAlloc(BYTES)), ok(*cuda.cuMemAlloc(BYTES))
    pinned = ok(*cuda.cuMemAllocHost(BYTES))
    def measured(call, *arguments):
        for behind in range(10):
            launch(function(f"sim_busy_{200000 << behind}us"))
            ok(*cuda.cuEventRecord(first, 0))
            ok(*call(*arguments, 0))
            ok(*cuda.cuEventRecord(last, 0))
            was_queued = code(*cuda.cuEventQuery(first)) == 600
            ok(*cuda.cuEventSynchronize(last))
            if was_queued:
                return ok(*cuda.cuEventElapsedTime(first, last))
        raise AssertionError("never queued in time")
    say([measured(cuda.cuMemcpyHtoDAsync, here, pinned, BYTES), measured(cuda.cuMemcpyDtoHAsync, pinned, here, BYTES),
         measured(cuda.cuMemcpyDtoDAsync, there, here, BYTES), measured(cuda.cuMemcpyAsync, there, here, BYTES),
         measured(cuda.cuMemcpyAsync, there, int(pinned), BYTES), measured(cuda.cuMemsetD8Async, here, 0, BYTES)])
"""

MEGABYTES = 64 * 1.048576


@pytest.mark.parametrize(
    ("board", "link", "memory"),
    [
        pytest.param("a100-80", 24, 2039, id="A100, PCIe 4"),
        pytest.param("h200", 48, 4917, id="H200, PCIe 5"),
        pytest.param("t4", 12, 320, id="T4, PCIe 3"),
    ],
)
def test_a_copy_takes_the_time_of_its_way(
    make_node: Callable[[str], Any], board: str, link: float, memory: float
) -> None:
    """`link` and `memory` in GB/s, that is MB a millisecond."""
    pair = 0.00128

    told = make_node(board).run(MEASURED)

    over_the_link, within = MEGABYTES / link + pair, 2 * MEGABYTES / memory + pair
    assert told[:2] == pytest.approx([over_the_link] * 2, rel=0.01)
    assert told[2:4] == pytest.approx([within] * 2, rel=0.01)
    assert told[4] == pytest.approx(over_the_link, rel=0.01)
    assert told[5] == pytest.approx((within - pair) / 2 + pair, rel=0.01)


def test_a_copy_that_was_waited_for_has_arrived(node: Any) -> None:
    assert node.run("""
        start()
        place, back = ok(*cuda.cuMemAlloc(4 * MIB)), bytearray(4 * MIB)
        sent = os.urandom(4 * MIB)
        ok(*cuda.cuMemcpyHtoD(place, sent, 4 * MIB))
        ok(*cuda.cuMemcpyDtoH(back, place, 4 * MIB))
        say([bytes(back) == sent, code(*cuda.cuStreamQuery(0))])
    """) == [True, 0]


ARRAYS = """
    start()
    def array():
        shape = cuda.CUDA_ARRAY_DESCRIPTOR()
        shape.Width, shape.Height, shape.NumChannels = 64, 0, 1
        shape.Format = cuda.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
        return ok(*cuda.cuArrayCreate(shape))
    one, other = array(), array()
    place, sent, back = ok(*cuda.cuMemAlloc(64)), bytes(range(64)), bytearray(64)
"""


def test_what_is_copied_through_arrays_arrives(node: Any) -> None:
    assert node.run(
        ARRAYS
        + """
    stream = ok(*cuda.cuStreamCreate(1))
    ok(*cuda.cuMemcpyHtoA(one, 0, sent, 64))
    ok(*cuda.cuMemcpyAtoA(other, 8, one, 0, 56))
    ok(*cuda.cuMemcpyHtoAAsync(other, 0, sent[:8], 8, stream))
    ok(*cuda.cuMemcpyAtoD(place, other, 0, 64))
    ok(*cuda.cuMemcpyDtoA(one, 32, place, 32))
    ok(*cuda.cuMemcpyAtoH(back, one, 0, 32))
    rest = bytearray(32)
    ok(*cuda.cuMemcpyAtoHAsync(rest, one, 32, 32, stream))
    ok(*cuda.cuStreamSynchronize(stream))
    say([list(back[:32]), list(rest)])
    """
    ) == [list(range(32)), [*range(8), *range(24)]]


def test_a_copy_past_an_array_s_end_is_refused(node: Any) -> None:
    assert node.run(
        ARRAYS
        + """
    far = 1 << 30
    say([code(*cuda.cuMemcpyHtoA(one, far, sent, 64)), code(*cuda.cuMemcpyAtoH(back, one, far, 64)),
         code(*cuda.cuMemcpyAtoA(other, far, one, 0, 64)), code(*cuda.cuMemcpyDtoA(one, far, place, 64))])
    """
    ) == [1, 1, 1, 1]


def test_the_host_does_not_wait_for_a_copy_within_the_device(node: Any) -> None:
    """Source: CUDA Driver API 13.0, "API synchronization behavior": as one between host and device does."""
    assert node.run("""
        start()
        place = ok(*cuda.cuMemAlloc(128))
        launch(function("sim_busy_1000000us"))
        there = int(place) + 64
        queued = [code(*cuda.cuMemcpyDtoD(place, there, 64)), code(*cuda.cuMemcpy(place, there, 64))]
        under_way = code(*cuda.cuStreamQuery(0))
        ok(*cuda.cuMemcpyDtoH(bytearray(64), place, 64))
        say([*queued, under_way, code(*cuda.cuStreamQuery(0))])
    """) == [0, 0, 600, 0]


BATCHES = """
    import ctypes
    driver = ctypes.CDLL("libcuda.so.1")
    size, word, place = ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64
    start()
    stream, data = place(int(ok(*cuda.cuStreamCreate(1)))), int(ok(*cuda.cuMemAlloc(64)))
    sent, back = ctypes.create_string_buffer(bytes(range(1, 65)), 64), ctypes.create_string_buffer(64)
    class Block(ctypes.Structure):
        _fields_ = [("ends", place * 10), ("extent", size * 3), ("order", word), ("flags", word)]
    def block(to, source, extent, order=1, kind=1, row=0):
        return Block((place * 10)(kind, source, row, 0, 0, 1, to, row, 0, 0), (size * 3)(*extent), order, 0)
    def batch(to, source, bytes, orders=(1,), starts=(0,), on=stream):
        failed, count = size(77), len(to)
        how = (word * (6 * len(orders)))(*(word for order in orders for word in (order, 0, 0, 0, 0, 0)))
        result = driver.cuMemcpyBatchAsync((place * count)(*to), (place * count)(*source), (size * count)(*bytes),
            size(count), how, (size * len(starts))(*starts), size(len(orders)), ctypes.byref(failed), on)
        return result, failed.value
    def blocks(*list, flags=0, on=stream):
        failed = size(77)
        return driver.cuMemcpy3DBatchAsync(size(len(list)), (Block * max(len(list), 1))(*list), ctypes.byref(failed),
                                           place(flags), on), failed.value
    host, home = ctypes.addressof(sent), ctypes.addressof(back)
    NONE = 2**64 - 1
"""


def test_a_batch_makes_all_its_copies(node: Any) -> None:
    assert node.run(
        BATCHES
        + """
    made = [batch([data, data + 8], [host, host + 32], [8, 8], (1, 3), (0, 1))[0],
            blocks(block(data + 16, host, (4, 2, 1), row=8), block(data + 32, host + 60, (4, 1, 1), order=2))[0],
            batch([home, home + 48], [data, data + 32], [24, 4])[0]]
    ok(*cuda.cuCtxSynchronize())
    say([made, list(back.raw[:20]), list(back.raw[48:52])])
    """
    ) == [[0, 0, 0], [*range(1, 9), *range(33, 41), *range(1, 5)], [61, 62, 63, 64]]


def test_a_batch_that_is_told_wrongly_is_refused_and_says_which_copy_it_was(node: Any) -> None:
    """Source: CUDA Driver API 13.0, cuMemcpyBatchAsync and cuMemcpy3DBatchAsync."""
    assert node.run(
        BATCHES
        + """
    two = [data, data + 8], [host, host + 8], [8, 8]
    say([batch(*two, orders=(0,)), batch(*two, orders=(4,)), batch(*two, starts=(1,)), batch(*two, (1, 1), (0, 0)),
         batch(*two, (1, 1), (0, 2)), batch(*two, (1, 1, 1), (0, 1, 2)), batch(*two, on=None), blocks(),
         blocks(block(data, host, (8, 1, 1)), flags=1), blocks(block(data, host, (8, 1, 1)), on=None),
         blocks(block(data, host, (8, 1, 1)), block(data, host, (8, 0, 1))),
         blocks(block(data, host, (8, 1, 1)), block(data, host, (8, 1, 1), kind=2)), batch(*two), NONE])
    """
    ) == [[1, 2**64 - 1]] * 10 + [[1, 1], [801, 1], [0, 77], 2**64 - 1]


def test_blocks_are_copied_between_peers(node: Any) -> None:
    assert node.run("""
        context = start()
        data, back = int(ok(*cuda.cuMemAlloc(64))), bytearray(64)
        ok(*cuda.cuMemcpyHtoD(data, bytes(range(64)), 64))
        copy = cuda.CUDA_MEMCPY3D_PEER()
        copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcContext = copy.dstContext = context
        copy.srcDevice, copy.dstDevice = data, data + 32
        copy.srcPitch, copy.dstPitch, copy.srcHeight, copy.dstHeight = 8, 4, 2, 2
        copy.WidthInBytes, copy.Height, copy.Depth = 4, 2, 2
        stream = ok(*cuda.cuStreamCreate(1))
        results = [code(*cuda.cuMemcpy3DPeer(copy)), code(*cuda.cuMemcpy3DPeerAsync(copy, stream))]
        ok(*cuda.cuMemcpyDtoH(back, data, 64))
        copy.srcDevice = 4096
        say([results, list(back[32:48]), code(*cuda.cuMemcpy3DPeer(copy))])
    """) == [[0, 0], [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27], 1]
