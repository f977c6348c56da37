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
