"""A copy that stays within the device is GPU time, whichever function is asked for it; over the host's link it is none.

The names are those of the one list of intercepted functions: a new row has to be told in harness/copying.py how it is
called. That all of them wait at a closed gate: test_every_launch.py.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.copying import COPIES

ROWS = Path(__file__).parents[2] / "native" / "src" / "entrypoints.def"
NAMES = re.findall(r"^CU\((cuMemcpy\w+),", ROWS.read_text(), re.MULTILINE)
# What the simulated board refuses: 32-bit addresses of CUDA 3, and what is newer than its driver.
OLD = [name for name in NAMES if re.fullmatch("cuMemcpy(HtoD|DtoH|HtoA|AtoH)(Async)?", name)]
OLD += ["cuMemcpyDtoD", "cuMemcpyDtoDAsync", "cuMemcpyDtoA", "cuMemcpyAtoD", "cuMemcpyAtoA", "cuMemcpy2D"]
OLD += ["cuMemcpy2DUnaligned", "cuMemcpy2DAsync", "cuMemcpy3D", "cuMemcpy3DAsync"]
NEW = [name for name in NAMES if "WithAttributes" in name]
CALLED_THE_HOST_S = [name for name in NAMES if re.match("cuMemcpy(HtoD|DtoH|HtoA|AtoH)", name) and name not in OLD]
WORKING = [name for name in NAMES if name not in OLD + NEW + CALLED_THE_HOST_S]
BY_NAME_ONLY = re.compile("cuMemcpy(DtoD|DtoA|AtoD|AtoA)")  # within the device, whatever the arguments say
BETWEEN_ANY = [name for name in WORKING if not BY_NAME_ONLY.match(name)]

# A megabyte takes a T4 6.6 microseconds: twice over its memory's 320 GB/s.
BYTES = 1 << 20
MEGABYTE_US = 6.55

SETUP = (
    COPIES
    + f"NAMES, BETWEEN_ANY, BYTES = {WORKING!r}, {BETWEEN_ANY!r}, {BYTES}\n"
    + """
import json
from jupyter_vgpu.client import UserClient
client = UserClient.from_environment()
def charged_seconds(device=0):
    return client.usage()["devices"][device]["gpu_time_seconds"]
start()
context = int(ok(cu.cuCtxGetCurrent()))
stream = place(int(ok(cu.cuStreamCreate(1))))
to, source = (int(ok(cu.cuMemAlloc(BYTES))) for _ in range(2))
arrays = array_of(BYTES), array_of(BYTES)
def copy(name, to=to, source=source, bytes=BYTES, types=(UNIFIED, UNIFIED), arrays=arrays):
    return getattr(driver, name)(*given(name, to, source, bytes, stream, types, context, arrays))
def wait():
    ok((cu.cuCtxSynchronize()[0], None))
"""
)


@pytest.fixture(scope="module")
def t4(start_agent: Callable[..., Any]) -> Any:
    """Return an agent on a board whose memory is slow, so that a copy of a megabyte is work."""
    return start_agent("t4")


@pytest.fixture
def held(t4: Any) -> Iterator[Any]:
    """Return a slice of that board."""
    part = t4.claim(1 << 30)
    yield part
    part.end()


def told(part: Any, program: str, **changes: str | None) -> Any:
    """Return what a program says as its last line, in JSON."""
    return json.loads(part.says(SETUP + program, **changes)[-1])


def test_most_copies_are_gone_through() -> None:
    assert len(WORKING) > 30
    assert len(BETWEEN_ANY) > 20


CHARGED = """
COPIES, AHEAD_BYTES = 200, 256 * MIB
big, pinned = int(ok(cu.cuMemAlloc(AHEAD_BYTES))), int(ok(cu.cuMemAllocHost(AHEAD_BYTES)))
def charged_us(name):
    for _ in range(20):
        # They are queued behind it, since this host takes longer for a copy than the board; it is no GPU time itself.
        before = charged_seconds()
        ahead = stream if "Async" in name else place(0)
        ok((cu.cuMemcpyHtoDAsync(big, pinned, AHEAD_BYTES, ahead.value)[0], None))
        for _ in range(COPIES):
            assert copy(name, types=TYPES) == 0, name
        wait()
        each_us = (charged_seconds() - before) / COPIES * 1e6
        if abs(each_us / MEGABYTE_US - 1) < 0.15:
            return None
    return each_us
say(json.dumps({name: each_us for name in NAMES if (each_us := charged_us(name)) is not None}))
"""


@pytest.mark.parametrize("types", ["UNIFIED", "DEVICE"])
def test_every_copy_within_the_device_is_charged_what_it_takes(held: Any, types: str) -> None:
    """Catches a bug where only cuMemcpyDtoD was: a storm of any other cost its tenant nothing."""
    program = CHARGED.replace("TYPES", f"({types}, {types})").replace("MEGABYTE_US", str(MEGABYTE_US))

    assert told(held, program) == {}


FROM_OR_TO_THE_HOST = """
pinned = int(ok(cu.cuMemAllocHost(BYTES)))
pageable = ctypes.create_string_buffer(BYTES)
ends = {"pinned": pinned, "pageable": ctypes.addressof(pageable)}
def both_ways(name, host):
    if "cuMemcpyPeer" in name or "3DPeer" in name:
        return []
    ways = [dict(source=host), dict(to=host), dict(to=host, source=host)]
    if re.search("[23]D(Un|As|_)", name):
        ways += [dict(source=host, types=(DEVICE, HOST)), dict(to=host, types=(HOST, DEVICE))]
        ways += [dict(source=host, types=(ARRAY, HOST), bytes=ROW_BYTES), dict(to=host, types=(HOST, ARRAY), bytes=64)]
    return ways
import re
import textwrap
results = {f"{name} {kind} {way}": copy(name, **way) for name in BETWEEN_ANY for kind, host in ends.items()
           for way in both_ways(name, host)}
for name in CALLED_THE_HOST_S:
    for kind, host in ends.items():
        results[f"{name} {kind}"] = copy(name, **{"source" if "Hto" in name else "to": host})
wait()
say(json.dumps([len(results), {way: result for way, result in results.items() if result != 0}, charged_seconds()]))
"""


def test_no_copy_from_or_to_the_host_is_charged(held: Any) -> None:
    """Their engines are not the device's own; pageable memory is none the driver knows."""
    made, failed, charged = told(held, FROM_OR_TO_THE_HOST.replace("CALLED_THE_HOST_S", repr(CALLED_THE_HOST_S)))

    assert made > 100
    assert failed == {}
    assert charged == 0


CALLED = """
uncharged = []
for name in CALLED_THE_HOST_S:
    before = charged_seconds()
    for _ in range(100):
        assert copy(name) == 0, name
    wait()
    if charged_seconds() == before:
        uncharged.append(name)
say(json.dumps(uncharged))
"""


def test_what_is_only_called_the_host_s_memory_is_charged(held: Any) -> None:
    """One address space: a copy "from the host" whose source is the device's memory stays within the device."""
    assert len(CALLED_THE_HOST_S) > 10

    assert told(held, CALLED.replace("CALLED_THE_HOST_S", repr(CALLED_THE_HOST_S))) == []


def test_rows_that_are_only_called_the_host_s_memory_are_charged(held: Any) -> None:
    program = CALLED.replace(
        "CALLED_THE_HOST_S", repr([name for name in WORKING if re.match("cuMemcpy[23]D(Un|As|_)", name)])
    )

    assert told(held, program.replace("copy(name)", "copy(name, types=(DEVICE, HOST))")) == []


def test_managed_memory_is_the_device_s(held: Any) -> None:
    program = """
    place_of_both = int(ok(cu.cuMemAllocManaged(BYTES, 1)))
    for _ in range(50):
        assert copy("cuMemcpyAsync", to=place_of_both) == 0
    wait()
    say(json.dumps(charged_seconds()))
    """

    assert told(held, textwrap.dedent(program)) > 0


CAPTURED = """
mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
def captured(name):
    ok((cu.cuStreamBeginCapture(stream.value, mode)[0], None))
    result = copy(name)
    graph = ok(cu.cuStreamEndCapture(stream.value))
    return result, graph
ok((cu.cuMemsetD8(source, 7, BYTES)[0], None))
# Only what is known to take time is charged at once.
for name in NAMES:
    for _ in range(50):
        assert copy(name) == 0, name
wait()
before = charged_seconds()
assert before > 0
failed, wrong = {}, []
for name in NAMES:
    if "Async" not in name:
        continue
    for _ in range(3):
        result, graph = captured(name)
    if result != 0 or len(ok(cu.cuGraphGetNodes(graph, 9))[0]) == 0:
        failed[name] = result
        continue
    ready.append((name, ok(cu.cuGraphInstantiate(graph, 0))))
charged_while_capturing = charged_seconds() - before
for name, executable in ready:
    ok((cu.cuMemsetD8(to, 1, BYTES)[0], None))
    wait()
    ok((cu.cuGraphLaunch(executable, stream.value)[0], None))
    wait()
    back = bytearray(BYTES)
    ok((cu.cuMemcpyDtoH(back, to, BYTES)[0], None))
    if bytes(back) != bytes([7]) * BYTES:
        wrong.append(name)
say(json.dumps([len(ready), failed, charged_while_capturing, wrong]))
"""


def test_what_is_captured_is_not_charged_and_becomes_part_of_the_graph(held: Any) -> None:
    made, failed, charged, wrong = told(held, "ready = []\n" + CAPTURED)

    assert made > 10
    assert failed == {}
    assert charged == 0
    assert wrong == []


NONSENSE = """
gone = place(int(ok(cu.cuStreamCreate(1))))
ok((cu.cuStreamDestroy(gone.value)[0], None))
failed = size(12345)
asked = {}
def note(what, name, *arguments):
    asked[f"{name}: {what}"] = getattr(driver, name)(*arguments)
for name in EVERY:
    if not hasattr(driver, name):
        continue
    tail = [stream] if "Async" in name else []
    if re.match("cuMemcpy[23]D", name) and "Batch" not in name and "With" not in name:
        note("nothing told", name, None, *tail)
    if name in OLD:
        continue
    note("no memory", name, *given(name, 0, 0, 64, stream, context=context))
    note("no bytes", name, *given(name, to, source, 0, stream, context=context, arrays=arrays))
    # Any other address may be the host's own memory, which the simulated board then goes to, as it is told.
    if not re.match("cuMemcpy(Async|_ptds|Batch|3DBatch|$)", name):
        types = dict(types=(DEVICE, DEVICE), context=context, arrays=arrays)
        note("memory of nobody", name, *given(name, 4096, 8192, 64, stream, types=types["types"], context=context))
        note("beyond its end", name, *given(name, to, source, 1 << 40, stream, **types))
    note("no such type", name, *given(name, to, source, 64, stream, types=(9, 77), context=context, arrays=arrays))
    if tail:
        note("no such stream", name, *given(name, to, source, 64, gone, context=context, arrays=arrays))
    if "cuMemcpyBatch" in name:
        telling = [] if "_v2" in name else [ctypes.byref(failed)]
        lists = given(name, to, source, 64)[:4]
        note("no lists", name, None, None, None, size(1 << 40), (word * 6)(1), (size * 1)(0), size(1), *telling, stream)
        note("not said how", name, *lists[:3], size(1 << 40), None, None, size(0), *telling, stream)
        note("said how too often", name, *lists, (word * 6)(1), (size * 1)(0), size(2), *telling, stream)
    if "cuMemcpy3DBatch" in name:
        telling = [] if "_v2" in name else [ctypes.byref(failed)]
        note("no list", name, size(1 << 40), None, *telling, place(0), stream)
        note("none", name, size(0), *given(name, to, source, 64)[1:2], *telling, place(0), stream)
wait()
say(json.dumps(asked))
"""


def test_nonsense_is_answered_by_the_driver(held: Any) -> None:
    """As without the library; where a call looks at memory that it was not given, the program would be gone."""
    program = f"import re\nEVERY, OLD = {NAMES!r}, {OLD!r}\n" + NONSENSE
    no_agent = "from jupyter_vgpu.client import UserClient\nclient = UserClient.from_environment()\n"

    inside = told(held, program)
    without = json.loads(held.says((SETUP + program).replace(no_agent, ""), LD_PRELOAD=None)[-1])

    assert inside == without
    assert len(set(without.values())) > 2, "the driver has errors of several kinds for it"
    assert len(without) > 150


BETWEEN_DEVICES = """
there = int(ok(cu.cuDevicePrimaryCtxRetain(ok(cu.cuDeviceGet(1)))))
ok((cu.cuCtxSetCurrent(there)[0], None))
theirs, theirs_too = (int(ok(cu.cuMemAlloc(BYTES))) for _ in range(2))
stream_there = int(ok(cu.cuStreamCreate(1)))
UNIFIED_ONLY = [name for name in BETWEEN_ANY if not re.search("[23]D(Un|As|_)", name)]
def storm(ctx, names, to, source, types, stream):
    ok((cu.cuCtxSetCurrent(ctx)[0], None))
    for _ in range(30):
        for name in names:
            arguments = given(name, to, source, BYTES, place(int(stream)), types, ctx)
            assert getattr(driver, name)(*arguments) == 0, name
    wait()
    return [charged_seconds(0), charged_seconds(1)]
across = storm(context, UNIFIED_ONLY, theirs, source, (DEVICE, DEVICE), stream.value)
within = storm(there, UNIFIED_ONLY, theirs, theirs_too, (DEVICE, DEVICE), stream_there)
say(json.dumps([len(UNIFIED_ONLY), across, within]))
"""


def test_what_goes_from_one_device_to_another_is_charged_to_neither(two_devices: Any) -> None:
    """Unless it is called a copy within a device: DtoD, and rows of memory of type DEVICE, say no more than that."""
    part = two_devices.claim(1 << 30, devices=2)
    try:
        names, across, within = told(part, "import re\n" + BETWEEN_DEVICES)
    finally:
        part.end()

    assert names > 10
    assert across == [0, 0]
    assert within[0] == 0 and within[1] > 0


CHANGED = """
LONG, LAUNCHES = 16 * MIB, 50
here, there = (int(ok(cu.cuMemAlloc(LONG))) for _ in range(2))
def captured(bytes):
    ok((cu.cuStreamBeginCapture(stream.value, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)[0], None))
    WORK
    graph = ok(cu.cuStreamEndCapture(stream.value))
    return graph, ok(cu.cuGraphGetNodes(graph, 1))[0][0]
def launched(executable, count):
    before = charged_seconds()
    for _ in range(count):
        ok((cu.cuGraphLaunch(executable, stream.value)[0], None))
    wait()
    return charged_seconds() - before
graph, node = captured(4096)
like = captured(LONG)[1]
executable = ok(cu.cuGraphInstantiate(graph, 0))
short = launched(executable, 500)
ok((cu.CHANGE[0], None))
say(json.dumps([short / 500, launched(executable, LAUNCHES) / LAUNCHES]))
"""


@pytest.mark.parametrize(
    ("work", "change"),
    [
        (
            "ok((cu.cuMemcpyDtoDAsync(here, there, bytes, stream.value)[0], None))",
            "cuGraphExecMemcpyNodeSetParams(executable, node, ok(cu.cuGraphMemcpyNodeGetParams(like)), context)",
        ),
        (
            "ok((cu.cuMemsetD8Async(here, 0, bytes, stream.value)[0], None))",
            "cuGraphExecMemsetNodeSetParams(executable, node, ok(cu.cuGraphMemsetNodeGetParams(like)), context)",
        ),
    ],
    ids=["a copy", "a fill"],
)
def test_a_graph_whose_copy_was_made_longer_is_charged_the_longer_one(held: Any, work: str, change: str) -> None:
    """From its next launches on: 16 MiB take a T4 52 microseconds to write, and twice as long to copy."""
    short, long = told(held, CHANGED.replace("WORK", work).replace("CHANGE", change))

    assert 0 < short < 20e-6
    assert long > 40e-6
