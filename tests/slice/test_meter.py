"""GPU time and waits as metered, against work whose duration is known. Simulated board.

The board interleaves contexts in turns as the H200 does. These tests are about the shape: nothing is
missed, nothing is counted twice, and neighbours' turns are not charged. How exact the figures are on a GPU,
benchmarks/meter measures there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

WORKER = """
start()
function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), NAME))
stream = ok(cu.cuStreamCreate(1))
launch = lambda: ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
def work(seconds, depth=8):
    made, begun = 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        for _ in range(depth):
            launch()
        made += depth
        ok((cu.cuStreamSynchronize(stream)[0], None))
    return made, time.monotonic() - begun
work(0.5)
say("ready")
for line in sys.stdin:
    say(*work(float(line)))
"""


def run_together(slices: list[Any], launch_us: int, seconds: float) -> list[tuple[float, float, float, float]]:
    """Return known and metered GPU time, wall time and metered waits of each slice's worker, in seconds."""
    programs = [held.start(WORKER.replace("NAME", f'b"sim_busy_{launch_us}us"')) for held in slices]
    for program in programs:
        assert program.stdout.readline() == "ready\n", program.stderr.read()
    before = [held.usage()["devices"][0] for held in slices]
    for program in programs:
        program.stdin.write(f"{seconds}\n")
        program.stdin.flush()
    answers = [[float(word) for word in program.stdout.readline().split()] for program in programs]
    time.sleep(0.3)
    after = [held.usage()["devices"][0] for held in slices]
    return [
        (
            made * launch_us / 1e6,
            new["gpu_time_seconds"] - old["gpu_time_seconds"],
            wall,
            new["waited_seconds"] - old["waited_seconds"],
        )
        for (made, wall), new, old in zip(answers, after, before, strict=True)
    ]


@pytest.mark.parametrize("launch_us", [100, 1000, 5000], ids=lambda us: f"{us} us launches")
def test_alone_gpu_time_is_what_was_launched(claim: Callable[..., Any], launch_us: int) -> None:
    ((known, metered, _, _),) = run_together([claim(2 << 30)], launch_us, 1.0)

    assert metered == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize("launch_us", [500, 5000], ids=lambda us: f"{us} us launches")
def test_beside_a_neighbour_each_is_charged_its_own_time_only(claim: Callable[..., Any], launch_us: int) -> None:
    rows = run_together([claim(2 << 30, tenant="alice"), claim(2 << 30, tenant="bob")], launch_us, 2.0)

    # Were the neighbour's turns charged, it would be 2.2 times as much. Launches longer than a turn are
    # judged by pulses, which a busy machine delays; the wait is what is left of the wall time.
    tolerance = 0.25 if launch_us < 2000 else 0.6
    for known, metered, wall, waited in rows:
        assert metered == pytest.approx(known, rel=tolerance)
        assert metered + waited == pytest.approx(wall, rel=tolerance)


def test_a_program_that_waits_once_is_charged_when_it_has_waited(claim: Callable[..., Any]) -> None:
    """Catches a bug where a first batch was charged with the second, and all of it called waiting."""
    held = claim(2 << 30)
    program = held.start("""
        start()
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_2000us"))
        for _ in range(100):
            ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
        ok((cu.cuCtxSynchronize()[0], None))
        say("done")
        sys.stdin.readline()
    """)
    assert program.stdout.readline() == "done\n", program.stderr.read()

    device = held.usage()["devices"][0]
    program.communicate("\n")

    assert device["gpu_time_seconds"] == pytest.approx(0.2, rel=0.2)
    assert device["waited_seconds"] < 0.1


def test_a_tenant_that_launches_nothing_is_charged_nothing(claim: Callable[..., Any]) -> None:
    held = claim(2 << 30)
    program = held.start("start(); ok(cu.cuMemAlloc(GIB)); say('held'); sys.stdin.readline()")
    assert program.stdout.readline() == "held\n"

    device = held.usage()["devices"][0]
    program.communicate("\n")

    assert (device["gpu_time_seconds"], device["waited_seconds"], device["launches"]) == (0, 0, 0)
