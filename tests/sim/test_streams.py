"""Streams, events and launches: work takes time, in order, and the host need not wait for it."""

from __future__ import annotations

from typing import Any

import pytest

COMPUTE = """
    import array, ctypes
    start()
    COUNT = 1000

    def on_device(values):
        values = array.array("f", values)
        place = ok(*cuda.cuMemAlloc(4 * len(values)))
        ok(*cuda.cuMemcpyHtoD(place, values.buffer_info()[0], 4 * len(values)))
        return place

    def on_host(place):
        values = array.array("f", [0] * COUNT)
        ok(*cuda.cuMemcpyDtoH(values.buffer_info()[0], place, 4 * COUNT))
        return list(values)
"""


def test_vector_add_really_adds(node: Any) -> None:
    assert node.run(
        COMPUTE
        + """
    a, b, c = on_device(range(COUNT)), on_device([5] * COUNT), on_device([0] * COUNT)
    launch(function("vector_add"), 0, ((a, b, c, COUNT), (None, None, None, ctypes.c_int)))
    say(on_host(c) == [value + 5 for value in range(COUNT)])
    """
    )


def test_scale_really_scales_and_only_as_far_as_there_are_threads(node: Any) -> None:
    first, last = node.run(
        COMPUTE
        + """
    x = on_device([2] * COUNT)
    args = ((x, 3.0, COUNT), (None, ctypes.c_float, ctypes.c_int))
    ok(*cuda.cuLaunchKernel(function("scale"), 2, 1, 1, 100, 1, 1, 0, 0, args, 0))
    values = on_host(x)
    say([values[199], values[200]])
    """
    )

    assert (first, last) == (6, 2)


def test_reduce_really_sums(node: Any) -> None:
    assert node.run(
        COMPUTE
        + """
    x, total = on_device(range(COUNT)), on_device([7])
    args = ((x, total, COUNT), (None, None, ctypes.c_int))
    launch(function("reduce"), 0, args)
    out = array.array("f", [0])
    ok(*cuda.cuMemcpyDtoH(out.buffer_info()[0], total, 4))
    say(out[0] == sum(range(COUNT)))
    """
    )


def test_matmul_really_multiplies_and_only_as_far_as_there_are_threads(node: Any) -> None:
    assert node.run(
        COMPUTE
        + """
    N = 30
    left = [[i * 3 % 7 - 3 for i in range(row, row + N)] for row in range(N)]
    right = [[(i * i) % 5 for i in range(row, row + N)] for row in range(N)]
    flat = lambda rows: [value for row in rows for value in row]
    a, b, c = on_device(flat(left)), on_device(flat(right)), on_device([-1] * N * N)
    args = ((a, b, c, N), (None, None, None, ctypes.c_int))
    ok(*cuda.cuLaunchKernel(function("matmul"), N, 1, 1, N - 1, 1, 1, 0, 0, args, 0))
    out = array.array("f", [0] * N * N)
    ok(*cuda.cuMemcpyDtoH(out.buffer_info()[0], c, 4 * N * N))
    product = flat([[sum(left[i][k] * right[k][j] for k in range(N)) for j in range(N)] for i in range(N)])
    say(list(out) == product[: N * (N - 1)] + [-1] * N)
    """
    )


@pytest.mark.parametrize("name", ["vector_add", "scale", "reduce", "matmul"])
def test_what_computes_stops_at_memory_that_is_not_the_device_s(node: Any, name: str) -> None:
    results = node.run(
        COMPUTE
        + f"""
    factor = 3.0 if {name!r} == "scale" else 64
    pointers = {{"vector_add": 3, "scale": 1, "reduce": 2, "matmul": 3}}[{name!r}]
    kinds = (None,) * pointers + ((ctypes.c_float,) if pointers == 1 else ()) + (ctypes.c_int,)
    def values(*places):
        return places + ((3.0,) if pointers == 1 else ()) + (10,)
    good = on_device([0] * 100)
    def try_it(places):
        return code(*cuda.cuLaunchKernel(function({name!r}), 1, 1, 1, 128, 1, 1, 0, 0, (values(*places), kinds), 0))
    wild = [[good if i != bad else cuda.CUdeviceptr(4096) for i in range(pointers)] for bad in range(pointers)]
    say([try_it([good] * pointers), *(try_it(places) for places in wild)])
    """
    )

    assert results[0] == 0
    assert set(results[1:]) == {700}


def test_a_launch_returns_at_once_and_its_stream_is_busy_for_as_long_as_its_name_says(node: Any) -> None:
    told = node.run("""
        start()
        long, stream = function("sim_busy_600000000us"), ok(*cuda.cuStreamCreate(1))
        other = ok(*cuda.cuStreamCreate(1))
        launch(long, stream)
        say([code(*cuda.cuStreamQuery(stream)), code(*cuda.cuStreamQuery(other))])
    """)

    assert told == [600, 0]


def test_events_measure_the_time_of_what_lies_between_them(node: Any) -> None:
    milliseconds = node.run("""
        start()
        stream = ok(*cuda.cuStreamCreate(1))
        first, last = ok(*cuda.cuEventCreate(0)), ok(*cuda.cuEventCreate(0))
        launch(function("sim_busy_20000us"), stream)   # the events wait behind it
        ok(*cuda.cuEventRecord(first, stream))
        for _ in range(4):
            launch(function("sim_busy_5000us"), stream)
        ok(*cuda.cuEventRecord(last, stream))
        not_ready = code(*cuda.cuEventElapsedTime(first, last))
        ok(*cuda.cuEventSynchronize(last))
        say([not_ready, ok(*cuda.cuEventElapsedTime(first, last))])
    """)

    assert milliseconds[0] in (600, 0)  # a very slow host may ask too late
    assert milliseconds[1] >= 20


def test_an_event_without_timing_measures_nothing(node: Any) -> None:
    assert (
        node.run("""
        start()
        first, last = ok(*cuda.cuEventCreate(2)), ok(*cuda.cuEventCreate(0))
        ok(*cuda.cuEventRecord(first, 0))
        ok(*cuda.cuEventRecord(last, 0))
        say(code(*cuda.cuEventElapsedTime(first, last)))
    """)
        == 400
    )


def test_a_stream_waits_for_an_event_of_another(node: Any) -> None:
    assert node.run("""
        start()
        one, two = ok(*cuda.cuStreamCreate(1)), ok(*cuda.cuStreamCreate(1))
        event = ok(*cuda.cuEventCreate(2))
        launch(function("sim_busy_600000000us"), one)
        ok(*cuda.cuEventRecord(event, one))
        before = code(*cuda.cuStreamQuery(two))
        ok(*cuda.cuStreamWaitEvent(two, event, 0))
        say([before, code(*cuda.cuStreamQuery(two))])
    """) == [0, 600]


def test_the_legacy_stream_and_blocking_streams_wait_for_each_other(node: Any) -> None:
    assert node.run("""
        start()
        blocking, free = ok(*cuda.cuStreamCreate(0)), ok(*cuda.cuStreamCreate(1))
        launch(function("sim_busy_600000000us"), 0)
        say([code(*cuda.cuStreamQuery(stream)) for stream in (0, blocking, free)])
    """) == [600, 600, 0]


def test_host_functions_run_in_order_and_before_a_synchronisation_ends(node: Any) -> None:
    assert node.run("""
        import ctypes
        start()
        order = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        calls = [kind(lambda _, number=number: order.append(number)) for number in range(5)]
        stream = ok(*cuda.cuStreamCreate(1))
        for call in calls:
            launch(function("sim_busy_1000us"), stream)
            ok(*cuda.cuLaunchHostFunc(stream, cuda.CUhostFn(_ptr=ctypes.addressof(call)), 0))
        ok(*cuda.cuStreamSynchronize(stream))
        say(order)
    """) == [0, 1, 2, 3, 4]


def test_a_callback_is_called_with_its_stream_and_result(node: Any) -> None:
    assert node.run("""
        import ctypes
        start()
        told = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        call = kind(lambda stream, result, data: told.append([stream, result, data]))
        stream = ok(*cuda.cuStreamCreate(1))
        launch(function("sim_busy_1000us"), stream)
        ok(*cuda.cuStreamAddCallback(stream, cuda.CUstreamCallback(_ptr=ctypes.addressof(call)), 77, 0))
        ok(*cuda.cuStreamSynchronize(stream))
        say(told == [[int(stream), 0, 77]])
    """)


def test_each_thread_has_a_default_stream_of_its_own(node: Any) -> None:
    assert node.run("""
        import threading
        context = start()
        own = cuda.CUstream(cuda.CU_STREAM_PER_THREAD)
        launch(function("sim_busy_600000000us"), own)
        other = []
        def look():
            ok(*cuda.cuCtxSetCurrent(context))
            other.append(code(*cuda.cuStreamQuery(own)))
            event = ok(*cuda.cuEventCreate(2))
            ok(*cuda.cuEventRecord(event, own))
            other.append(code(*cuda.cuEventQuery(event)))
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        # Its own work, and the legacy stream, which waits for all of them.
        say([code(*cuda.cuStreamQuery(own)), code(*cuda.cuStreamQuery(0)), *other])
    """) == [600, 600, 0, 0]


def test_bad_launches_are_refused(node: Any) -> None:
    assert node.run("""
        start()
        kernel = function("anything")
        def try_it(grid, block):
            return code(*cuda.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, 0, 0, 0))
        say([try_it(1, 1024), try_it(0, 1), try_it(1, 0), try_it(1, 1025)])
    """) == [0, 1, 1, 1]


def test_values_are_written_in_the_order_of_the_stream(node: Any) -> None:
    assert node.run("""
        start()
        place = ok(*cuda.cuMemAlloc(16))
        ok(*cuda.cuMemsetD8(place, 0, 16))
        stream = ok(*cuda.cuStreamCreate(1))
        ok(*cuda.cuStreamWriteValue64(stream, int(place) + 8, 0x1122334455667788, 0))
        ok(*cuda.cuStreamWriteValue32(stream, place, 7, 0))
        ok(*cuda.cuStreamWaitValue32(stream, place, 7, 1))
        out = bytearray(16)
        ok(*cuda.cuMemcpyDtoH(out, place, 16))
        says = [int.from_bytes(out[:4], "little"), int.from_bytes(out[8:], "little")]
        say([*says, code(*cuda.cuStreamWaitValue32(stream, place, 8, 1))])
    """) == [7, 0x1122334455667788, 801]
