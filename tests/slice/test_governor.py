"""GPU time by shares and ceilings, on the simulated board.

What a tenant got is counted by itself, in launches of known duration, not by our meter. The board runs on a busy
machine's clock, so each test waits until a second (or three) shows what is promised, and fails when none does; without
a governor none would: the driver gives everybody equal turns and knows no ceilings. How exact the figures are on a GPU,
benchmarks/governor measures there.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

# Launches for ever, and says on each line of input how many it has made so far.
WORKER = """
import threading
start()
MADE = 0
module = ok(cu.cuModuleLoadData(b"any text\\0"))
function = ok(cu.cuModuleGetFunction(module, b"sim_busy_LAUNCHus"))
stream = ok(cu.cuStreamCreate(1))
def plain():
    ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
def cooperative():
    ok((cu.cuLaunchCooperativeKernel(function, 108, 1, 1, 256, 1, 1, 0, stream, 0)[0], None))
def extended():
    config = cu.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 108, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 256, 1, 1
    config.hStream = stream
    ok((cu.cuLaunchKernelEx(config, function, 0, 0)[0], None))
def make_graph():
    ok((cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)[0], None))
    plain()
    graph = ok(cu.cuStreamEndCapture(stream))
    return ok(cu.cuGraphInstantiate(graph, 0))
def graph(executable=[]):
    executable or executable.append(make_graph())
    ok((cu.cuGraphLaunch(executable[0], stream)[0], None))
def on_many_streams(streams=[]):
    streams or streams.extend(ok(cu.cuStreamCreate(1)) for _ in range(20))
    ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, streams[MADE % 20], 0, 0)[0], None))
def fill(data=[]):
    data or data.append(ok(cu.cuMemAlloc(8 << 20)))
    ok((cu.cuMemsetD8Async(data[0], 1, 8 << 20, stream)[0], None))
def copy(data=[]):
    data or data.append(ok(cu.cuMemAlloc(16 << 20)))
    ok((cu.cuMemcpyDtoDAsync(data[0], int(data[0]) + (8 << 20), 8 << 20, stream)[0], None))
def and_waits():
    plain()
    ok((cu.cuStreamSynchronize(stream)[0], None))
def answer():
    for line in sys.stdin:
        say(MADE)
threading.Thread(target=answer, daemon=True).start()
while True:
    KIND()
    MADE += 1
"""
LAUNCH_US = 2000
PATIENCE_SECONDS = 180.0


def begin(held: Any, kind: str = "plain") -> subprocess.Popen[str]:
    program: subprocess.Popen[str] = held.start(WORKER.replace("LAUNCH", str(LAUNCH_US)).replace("KIND", kind))
    return program


def count(programs: list[subprocess.Popen[str]]) -> list[int]:
    """Return how many launches each program has made by now."""
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    answers = [program.stdout.readline() for program in programs]
    for program, line in zip(programs, answers, strict=True):
        assert line, program.stderr.read()
    return [int(line) for line in answers]


def parts(programs: list[subprocess.Popen[str]], seconds: float = 1.0) -> list[float]:
    """Return the part of the device's time that each program has for the next seconds."""
    before, begun = count(programs), time.monotonic()
    time.sleep(seconds)
    after, wall = count(programs), time.monotonic() - begun
    return [(new - old) * LAUNCH_US / 1e6 / wall for old, new in zip(before, after, strict=True)]


def some_time(holds: Callable[[list[float]], bool], measure: Callable[[], list[float]], what: str) -> None:
    """Measure until it holds; fail with all that was seen when it never does."""
    seen = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        figures = measure()
        if holds(figures):
            return
        seen.append([round(figure, 3) for figure in figures])
    raise AssertionError(f"never {what}: {seen}")


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
        "launches on twenty streams",
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


def test_a_grid_that_overflows_is_charged_by_time(claim: Callable[..., Any]) -> None:
    """CASES 35."""
    held = claim(1 << 30)

    (took,) = held.says("""
        start()
        function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_1us"))
        begun = time.monotonic()
        ok((cu.cuLaunchKernel(function, 2**17, 2**15, 1, 32, 1, 1, 0, 0, 0, 0)[0], None))
        ok((cu.cuCtxSynchronize()[0], None))
        say(time.monotonic() - begun)
    """)

    # What a process did stays counted after its end.
    assert held.usage()["devices"][0]["gpu_time_seconds"] > float(took) / 2 > 0.01


def test_what_one_leaves_is_the_others(claim: Callable[..., Any]) -> None:
    gone, there = claim(1 << 30, share="3/4", tenant="alice"), claim(1 << 30, share="1/4", tenant="bob")
    first, second = begin(gone), begin(there)
    some_time(lambda figures: figures[1] < 0.4, lambda: parts([first, second]), "held back")

    first.kill()
    first.wait()

    some_time(lambda figures: figures[0] > 0.8, lambda: parts([second]), "all of it")


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
    assert held.usage()["devices"][0]["throttled_launches"] > 0


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


def test_without_an_agent_nobody_stops_and_a_ceiling_is_kept(start_agent: Callable[[str], Any]) -> None:
    agent = start_agent("a100-80")
    limited = agent.claim(1 << 30, share="1/4", ceiling="1/4")
    free = agent.claim(1 << 30, share="1/4", tenant="bob")
    programs = [begin(limited), begin(free)]
    try:
        some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts(programs), "a quarter")

        agent.end(signal.SIGKILL)

        some_time(
            lambda figures: 0.15 < figures[0] < 0.35 and figures[1] > 0.4, lambda: parts(programs), "kept without it"
        )
        agent.start()
        some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts(programs), "a quarter again")
    finally:
        for held in (limited, free):
            held.end()
