"""Whatever takes GPU time waits at a closed gate, by whichever function it is asked for.

The names are those of the one list of intercepted functions: a new row has to be told here how it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.copying import COPIES

ROWS = Path(__file__).parents[2] / "native" / "src" / "entrypoints.def"
# Newer than the simulated board's driver.
TOO_NEW = "WithAttributesAsync"
TAKES_TIME = re.compile(r"^CU\((cu(?:Launch|GraphLaunch|Memset|Memcpy)\w*),", re.MULTILINE)

# Calls each function once the gate is closed, and says which of them did not wait.
CALLER = (
    COPIES
    + """
import re
from jupyter_vgpu.client import UserClient

client = UserClient.from_environment()
start()
module = ok(cu.cuModuleLoadData(b"any text\\0"))
busy, short = (place(int(ok(cu.cuModuleGetFunction(module, b"sim_busy_%dus" % us)))) for us in (5000, 10))
stream = place(int(ok(cu.cuStreamCreate(1))))
data, context = int(ok(cu.cuMemAlloc(1 << 16))), int(ok(cu.cuCtxGetCurrent()))
arrays = array_of(4096), array_of(4096)
ok((cu.cuStreamBeginCapture(stream.value, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)[0], None))
ok((cu.cuLaunchKernel(short.value, 1, 1, 1, 32, 1, 1, 0, stream.value, 0, 0)[0], None))
graph = place(int(ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream.value)), 0))))

class Config(ctypes.Structure):
    _fields_ = [("shape", word * 6), ("shared", word), ("stream", place), ("attributes", place), ("count", word)]

class OfList(ctypes.Structure):
    _fields_ = [("function", place), ("shape", word * 6), ("shared", word), ("stream", place), ("parameters", place)]

SHAPE = (word * 6)(1, 1, 1, 32, 1, 1)
config, listed = Config(SHAPE, 0, stream), OfList(short, SHAPE, 0, stream, 0)
grid = [short, *map(word, SHAPE), word(0), stream, None]
fixed = {
    "cuLaunchKernel": [*grid, None],
    "cuLaunchCooperativeKernel": grid,
    "cuLaunchKernelEx": [ctypes.byref(config), short, None, None],
    "cuLaunchCooperativeKernelMultiDevice": [ctypes.byref(listed), word(1), word(0)],
    "cuLaunch": [short],
    "cuLaunchGrid": [short, 1, 1],
    "cuLaunchGridAsync": [short, 1, 1, stream],
    "cuGraphLaunch": [graph, stream],
}

# The board's answer for what real drivers have for CUDA 3 alone; by then it has waited.
NOT_SUPPORTED = 801
VALUES = {8: ctypes.c_ubyte, 16: ctypes.c_ushort, 32: word}

def arguments(name):
    plain = name.removesuffix("_ptsz").removesuffix("_ptds")
    if plain in fixed:
        return fixed[plain]
    if plain.startswith("cuMemcpy"):
        return given(name, data, data + 32768, 4096, stream, context=context, arrays=arrays)
    value = next(kind for bits, kind in VALUES.items() if re.search(rf"D{bits}(?!D)", plain))
    rows = [place(data), size(256), value(7), size(16), size(16)]
    return (rows if "D2D" in plain else [place(data), value(7), size(64)]) + ([stream] if "Async" in plain else [])

def throttled():
    return client.usage()["devices"][0]["throttled_launches"]

def waits(name):
    # A launch before it closes the gate, once the governor has looked.
    call, given = getattr(driver, name), arguments(name)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ok((cu.cuLaunchKernel(busy.value, 108, 1, 1, 32, 1, 1, 0, stream.value, 0, 0)[0], None))
        before = throttled()
        assert call(*given) in (0, NOT_SUPPORTED), name
        if throttled() > before:
            return True
    return False

say(*[name for name in NAMES if not waits(name)])
"""
)


def test_every_function_that_takes_gpu_time_waits_at_a_closed_gate(claim: Callable[..., Any]) -> None:
    """CASES 34, and its siblings: per-thread streams, CUDA 3's launches, fills and copies of every shape."""
    names = [name for name in TAKES_TIME.findall(ROWS.read_text()) if TOO_NEW not in name]
    assert len(names) > 80

    said = claim(1 << 30, share="1/8", ceiling="1/8").says(CALLER.replace("NAMES", repr(names)))

    assert said == [""]
