"""GPU time by shares and ceilings, on the simulated board.

What is asserted no board gives without a governor: the driver gives everybody equal turns and knows no ceilings. How
exact the figures are on a GPU, benchmarks/governor measures there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.launching import begin, count, has_all, parts, some_time


def test_two_that_are_always_busy_have_time_by_their_shares(claim: Callable[..., Any]) -> None:
    programs = [
        begin(claim(1 << 30, share="3/4", tenant="alice")),
        begin(claim(1 << 30, share="1/4", tenant="bob")),
    ]

    some_time(
        lambda figures: 2.5 < figures[0] / max(figures[1], 0.001) < 3.6 and sum(figures) > 0.8,
        lambda: parts(programs),
        "three to one",
    )


@pytest.mark.slow
def test_a_user_with_three_processes_has_no_more_than_one_with_one(claim: Callable[..., Any]) -> None:
    """CASES 36."""
    many, one = claim(1 << 30, share="1/2", tenant="alice"), claim(1 << 30, share="1/2", tenant="bob")
    programs = [begin(many), begin(many), begin(many), begin(one)]

    some_time(
        lambda figures: 0.75 < sum(figures[:3]) / max(figures[3], 0.001) < 1.35 and sum(figures) > 0.8,
        lambda: parts(programs),
        "half and half",
    )


@pytest.mark.parametrize(
    "kind",
    ["plain", "cooperative", "extended", "graph", "on_many_streams", "and_waits"],
    ids=[
        "plain launches",
        "cooperative launches",
        "extended launches",
        "graphs",
        "launches on a hundred streams",
        "launches that are waited for",
    ],
)
def test_a_ceiling_holds_for(claim: Callable[..., Any], kind: str) -> None:
    """CASES 31, 34: what is charged is time, however it is launched."""
    held = claim(1 << 30, share="1/4", ceiling="1/4")
    program = begin(held, kind)

    some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts([program]), "a quarter")
    (device,) = held.usage()["devices"]
    assert device["throttled_launches"] > 0
    assert device["gated_seconds"] > 0


@pytest.mark.parametrize("kind", ["fill", "copy"], ids=["fills", "copies within the device"])
def test_a_ceiling_holds_back_what_is_no_launch(claim: Callable[..., Any], kind: str) -> None:
    """The board really moves the bytes, in the host's time: what ran before the first gate is soon made good."""
    held = claim(1 << 30, share="1/5", ceiling="1/5")
    program = begin(held, kind)
    count([program])

    def figures() -> list[float]:
        time.sleep(0.2)
        (device,) = held.usage()["devices"]
        return [device["throttled_launches"], device["gpu_time_seconds"], device["launches"]]

    some_time(lambda seen: seen[0] > 0 and seen[1] > 0 and seen[2] == 0, figures, "held back")


def test_a_ceiling_holds_for_all_processes_of_a_slice_together(claim: Callable[..., Any]) -> None:
    held = claim(1 << 30, share="1/4", ceiling="1/4")
    programs = [begin(held) for _ in range(4)]

    some_time(lambda figures: 0.2 < sum(figures) < 0.3, lambda: parts(programs), "a quarter together")


def test_launches_longer_than_any_window_are_kept_to_a_ceiling(claim: Callable[..., Any]) -> None:
    """What has begun ends when it likes: the next waits until it is made good. Nobody knows the first one's length."""
    held = claim(1 << 30, share="1/4", ceiling="1/4")

    (took,) = held.says("""
        start()
        busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_500000us"))
        begun = time.monotonic()
        for _ in range(3):
            ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
            ok((cu.cuCtxSynchronize()[0], None))
        say(time.monotonic() - begun)
    """)

    assert float(took) > 3.5, "a second at a quarter takes four, and then there is the third"


def test_a_grid_that_overflows_is_charged_by_time(claim: Callable[..., Any]) -> None:
    """CASES 35; and it can fill all SMs: 32 bits make two of the number of its blocks."""
    held = claim(1 << 30)
    program = held.start("""
        start()
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_1us"))
        begun = time.monotonic()
        ok((cu.cuLaunchKernel(function, 0x55555556, 3, 1, 32, 1, 1, 0, 0, 0, 0)[0], None))
        ok((cu.cuCtxSynchronize()[0], None))
        say(time.monotonic() - begun)
        sys.stdin.readline()
    """)

    took = float(program.stdout.readline())
    (process,) = held.usage()["processes"]
    program.communicate("\n")

    assert process["devices"][0]["gpu_time_seconds"] > took / 2 > 0.01
    assert process["devices"][0]["sm_seconds"] > took / 4
    assert held.usage()["devices"][0]["gpu_time_seconds"] > took / 2, "what a process did stays counted after its end"


def test_what_one_leaves_is_the_others(claim: Callable[..., Any]) -> None:
    gone, there = claim(1 << 30, share="3/4", tenant="alice"), claim(1 << 30, share="1/4", tenant="bob")
    first, second = begin(gone), begin(there)
    some_time(lambda figures: figures[0] > 0.5 > 2 * figures[1] > 0, lambda: parts([first, second]), "three to one")

    first.kill()
    first.wait()

    some_time(has_all, lambda: parts([second]), "all of it")


def test_a_capture_goes_on_while_the_gate_is_closed(claim: Callable[..., Any]) -> None:
    """CASES 37: three modes, a gate that closes all the time, replays with the right result."""
    held = claim(1 << 30, share="1/8", ceiling="1/8")

    lines = held.says("""
        start()
        module = ok(cu.cuModuleLoadData(b"any text\\0"))
        busy = ok(cu.cuModuleGetFunction(module, b"sim_busy_1000us"))
        stream, other = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(1))
        data = ok(cu.cuMemAlloc(4096))
        modes = cu.CUstreamCaptureMode
        for mode in (modes.CU_STREAM_CAPTURE_MODE_GLOBAL, modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                     modes.CU_STREAM_CAPTURE_MODE_RELAXED):
            for _ in range(20):
                ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, other, 0, 0)[0], None))
            ok((cu.cuStreamBeginCapture(stream, mode)[0], None))
            ok((cu.cuMemsetD32Async(data, 0, 1024, stream)[0], None))
            for _ in range(20):
                ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, other, 0, 0)[0], None))
            ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
            ok((cu.cuMemsetD32Async(data, 7, 1024, stream)[0], None))
            executable = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream)), 0))
            for _ in range(30):
                ok((cu.cuGraphLaunch(executable, stream)[0], None))
            ok((cu.cuStreamSynchronize(stream)[0], None))
            seen = bytearray(4096)
            ok((cu.cuMemcpyDtoH(seen, data, 4096)[0], None))
            assert seen == (7).to_bytes(4, "little") * 1024
            say(mode.name)
    """)

    assert len(lines) == 3
    (device,) = held.usage()["devices"]
    assert device["throttled_launches"] > 0
    assert device["launches"] == 3 * (20 + 20 + 30), "what is captured is launched with its graph, and not before"


def test_a_blocking_stream_beside_the_legacy_stream_ends(claim: Callable[..., Any]) -> None:
    """CASES 38."""
    held = claim(1 << 30, share="1/4", ceiling="1/4")

    lines = held.says("""
        start()
        busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_1000us"))
        blocking = ok(cu.cuStreamCreate(0))
        for _ in range(60):
            for stream in (0, blocking, 0):
                ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
        ok((cu.cuCtxSynchronize()[0], None))
        say("done")
    """)

    assert lines == ["done"]
    assert held.usage()["devices"][0]["throttled_launches"] > 0
