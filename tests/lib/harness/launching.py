"""Programs that launch without end, and what part of a simulated board's time each has.

What a tenant got is counted by itself, in launches of known duration, not by our meter. The board runs on a busy
machine's clock, so a test waits until a second (or three) shows what is promised, and fails when none does.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

LAUNCH_US = 2000
PATIENCE_SECONDS = 180.0

# What `begin` runs: launches for ever, and says on each line of input how many it has made so far.
_WORKER = """
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
    streams or streams.extend(ok(cu.cuStreamCreate(1)) for _ in range(100))
    ok((cu.cuLaunchKernel(function, 108, 1, 1, 256, 1, 1, 0, streams[MADE % 100], 0, 0)[0], None))
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


def begin(
    held: Any, kind: str = "plain", launch_us: int = LAUNCH_US, wrapped: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a program in a slice of tests/slice that launches without end.

    Args:
        held: The slice.
        kind: How it launches: a function of the program above.
        launch_us: How long each launch is, where it is a launch.
        wrapped: A command that runs the program.
    """
    text = _WORKER.replace("LAUNCH", str(launch_us)).replace("KIND", kind)
    program: subprocess.Popen[str] = held.start(text, wrapped=wrapped)
    return program


def count(programs: Sequence[subprocess.Popen[str]]) -> list[int]:
    """Return how many launches each program has made by now."""
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    return [_answer(program) for program in programs]


def _answer(program: subprocess.Popen[str]) -> int:
    assert program.stdout is not None and program.stderr is not None
    line = program.stdout.readline()
    assert line, program.stderr.read()
    return int(line)


def parts(programs: Sequence[subprocess.Popen[str]], seconds: float = 1.0, launch_us: int = LAUNCH_US) -> list[float]:
    """Return the part of the device's time that each program has for the next seconds, by launches of that length."""
    before, begun = count(programs), time.monotonic()
    time.sleep(seconds)
    after, wall = count(programs), time.monotonic() - begun
    return [(new - old) * launch_us / 1e6 / wall for old, new in zip(before, after, strict=True)]


def has_all(figures: Sequence[float]) -> bool:
    """Return whether a lone program has the device, and does not only fill its queue of a thousand launches."""
    return all(0.8 < figure < 1.15 for figure in figures)


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
