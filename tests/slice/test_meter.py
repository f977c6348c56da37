"""GPU time and waits as metered, against work whose duration is known. Simulated board.

The board interleaves contexts in turns as the H200 does. These tests are about the shape: nothing is
missed, nothing is counted twice, and neighbours' turns are not charged. How exact the figures are on a GPU,
benchmarks/meter measures there. The board runs on a busy machine's clock, and a host that pauses spoils samples:
each test measures until a round shows the shape, and fails when none does.
"""

from __future__ import annotations

import functools
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

WORKER = """
start()
function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), NAME))
streams = [ok(cu.cuStreamCreate(1)) for _ in range(STREAMS)]
def work(seconds, depth=DEPTH):
    made, begun = 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        for number in range(depth):
            stream = streams[number % STREAMS]
            ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
        made += depth
        for stream in streams:
            ok((cu.cuStreamSynchronize(stream)[0], None))
    return made, time.monotonic() - begun
work(0.5)
say("ready")
for line in sys.stdin:
    say(*work(float(line)))
"""


# Known and metered GPU time, wall time and metered waits, in seconds.
Row = tuple[float, float, float, float]
PATIENCE_SECONDS = 180.0


class Workers:
    """A worker in each of some slices, which all work at the same time."""

    def __init__(self, slices: list[Any], launch_us: int, streams: int = 1, depth: int = 8) -> None:
        """Start them, and let each launch for a while, so many launches between two waits."""
        self._slices, self._launch_us = slices, launch_us
        names = {"NAME": f'b"sim_busy_{launch_us}us"', "STREAMS": str(streams), "DEPTH": str(depth)}
        program = functools.reduce(lambda text, name: text.replace(name, names[name]), names, WORKER)
        self._programs = [held.start(program) for held in slices]
        for each in self._programs:
            assert each.stdout.readline() == "ready\n", each.stderr.read()

    def run(self, seconds: float) -> list[Row]:
        """Let all work for some seconds and return a row of each."""
        before = [held.usage()["devices"][0] for held in self._slices]
        for program in self._programs:
            program.stdin.write(f"{seconds}\n")
            program.stdin.flush()
        answers = [[float(word) for word in program.stdout.readline().split()] for program in self._programs]
        time.sleep(0.3)
        after = [held.usage()["devices"][0] for held in self._slices]
        return [
            (
                made * self._launch_us / 1e6,
                new["gpu_time_seconds"] - old["gpu_time_seconds"],
                wall,
                new["waited_seconds"] - old["waited_seconds"],
            )
            for (made, wall), new, old in zip(answers, after, before, strict=True)
        ]


def some_round(holds: Callable[[Row], bool], measure: Callable[[], list[Row]]) -> None:
    """Measure until all rows hold; fail with what was seen when that never is."""
    seen = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        rows = measure()
        if all(map(holds, rows)):
            return
        seen.append([tuple(round(figure, 3) for figure in row) for row in rows])
    raise AssertionError(f"never held, as known, metered, wall, waited: {seen}")


def is_near(value: float, wanted: float, part: float) -> bool:
    """Return whether `value` is within `part` of what is wanted."""
    return abs(value - wanted) <= part * wanted


@pytest.mark.parametrize(
    "launch_us", [100, pytest.param(1000, marks=pytest.mark.slow), 5000], ids=lambda us: f"{us} us launches"
)
def test_alone_gpu_time_is_what_was_launched(claim: Callable[..., Any], launch_us: int) -> None:
    workers = Workers([claim(2 << 30)], launch_us)

    some_round(lambda row: is_near(row[1], row[0], 0.1), lambda: workers.run(1.0))


@pytest.mark.parametrize(
    "launch_us", [500, pytest.param(5000, marks=pytest.mark.slow)], ids=lambda us: f"{us} us launches"
)
def test_beside_a_neighbour_each_is_charged_its_own_time_only(driver_time: Any, launch_us: int) -> None:
    """By the driver's own turns. Were the neighbour's charged, it would be 2.2 times as much."""
    held = [driver_time.claim(2 << 30, tenant="alice"), driver_time.claim(2 << 30, tenant="bob")]
    try:
        workers = Workers(held, launch_us)
        # The wait is what is left of the wall time.
        some_round(
            lambda row: is_near(row[1], row[0], 0.25) and is_near(row[1] + row[3], row[2], 0.25),
            lambda: workers.run(2.0),
        )
    finally:
        for each in held:
            each.end()


@pytest.mark.parametrize(
    ("launch_us", "streams", "depth"),
    [(3600, 1, 8), pytest.param(20000, 1, 2, marks=pytest.mark.slow), (200, 16, 400)],
    ids=["launches of nearly two turns", "launches of ten turns", "16 streams"],
)
def test_where_the_agent_steers_each_of_four_is_charged_its_own_time_only(
    claim: Callable[..., Any], launch_us: int, streams: int, depth: int
) -> None:
    """Catches bugs where most samples held time of others', or only part of what they stood for."""
    held = [claim(2 << 30, tenant=f"t{number}") for number in range(4)]
    workers = Workers(held, launch_us, streams, depth)

    some_round(lambda row: is_near(row[1], row[0], 0.15), lambda: workers.run(1.5))


def charged_for(claim: Callable[..., Any], program: str, known_seconds: float) -> list[Row]:
    """Return what a slice of its own says of a program with that much work, when it has waited for it; no wall time."""
    held = claim(2 << 30)
    process = held.start(textwrap.dedent(program) + "say('done')\nsys.stdin.readline()\n")
    assert process.stdout.readline() == "done\n", process.stderr.read()
    device = held.usage()["devices"][0]
    process.communicate("\n")
    held.release()
    return [(known_seconds, device["gpu_time_seconds"], 0.0, device["waited_seconds"])]


def hundred_launches(after_each: str, after_all: str) -> str:
    """Return a program that makes a hundred launches of 2 ms, and what it does after each and after all of them."""
    return f"""
        start()
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_2000us"))
        for _ in range(100):
            ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
            {after_each}
        {after_all}
    """


WAIT = "ok((cu.cuCtxSynchronize()[0], None))"


def test_a_program_that_waits_once_is_charged_when_it_has_waited(claim: Callable[..., Any]) -> None:
    """Catches a bug where a first batch was charged with the second, and all of it called waiting."""
    program = hundred_launches("pass", WAIT)

    some_round(lambda row: is_near(row[1], row[0], 0.2) and row[3] < 0.1, lambda: charged_for(claim, program, 0.2))


def test_a_lone_program_that_waits_for_each_launch_has_waited_for_nobody(claim: Callable[..., Any]) -> None:
    """Catches a bug where the first launch of what is in flight was taken for waiting, and not for GPU time."""
    program = hundred_launches(WAIT, "pass")

    some_round(lambda row: is_near(row[1], row[0], 0.2) and row[3] < 0.05, lambda: charged_for(claim, program, 0.2))


def test_the_only_launch_of_its_kind_is_charged_whatever_came_before(claim: Callable[..., Any]) -> None:
    """Catches a bug where a launch soon after another's sample was left to the next of its kind, which never came."""
    program = """
        start()
        module = ok(cu.cuModuleLoadData(b"any text\\0"))
        short, long = (ok(cu.cuModuleGetFunction(module, name)) for name in (b"sim_busy_20us", b"sim_busy_2000us"))
        for _ in range(3):
            ok((cu.cuLaunchKernel(short, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
        time.sleep(0.01)
        for blocks in (32, 64, 108):
            ok((cu.cuLaunchKernel(long, blocks, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
            ok((cu.cuCtxSynchronize()[0], None))
    """

    some_round(lambda row: is_near(row[1], row[0], 0.2), lambda: charged_for(claim, program, 0.006))


def test_a_tenant_that_launches_nothing_is_charged_nothing(claim: Callable[..., Any]) -> None:
    held = claim(2 << 30)
    program = held.start("start(); ok(cu.cuMemAlloc(GIB)); say('held'); sys.stdin.readline()")
    assert program.stdout.readline() == "held\n"

    device = held.usage()["devices"][0]
    program.communicate("\n")

    assert (device["gpu_time_seconds"], device["waited_seconds"], device["launches"]) == (0, 0, 0)
