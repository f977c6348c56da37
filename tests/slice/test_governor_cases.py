"""CASES 39 to 41: what one tenant does to another by long launches and by a fault, and what one alone pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.launching import begin, count, has_all, parts, some_time
from harness.waiting import wait_until
from jupyter_vgpu.sim import faults

# Longer than ten windows: it is never drained in time.
LONG_SECONDS = 0.2
ILLEGAL_ADDRESS_XID = 31


def seconds_of(held: Any, figure: str) -> float:
    return float(held.usage()["devices"][0][figure])


@pytest.mark.slow
def test_launches_longer_than_windows_are_charged_to_their_owner_and_made_good(claim: Callable[..., Any]) -> None:
    """CASES 39: by the driver's turns both would have half; what the one waits for the other's is recorded."""
    long, short = claim(1 << 30, share="1/4", tenant="alice"), claim(1 << 30, share="3/4", tenant="bob")
    slow = begin(long, "and_waits", launch_us=int(LONG_SECONDS * 1e6))
    busy = begin(short)
    count([slow, busy])
    waited_before = seconds_of(short, "waited_seconds")

    some_time(lambda figures: 0.6 < figures[0] < 0.9, lambda: parts([busy], 4.0), "three quarters")

    def is_charged() -> bool:
        made, charged = count([slow])[0], seconds_of(long, "gpu_time_seconds")
        return made > 20 and 0.85 < charged / (LONG_SECONDS * made) < 1.15

    wait_until(is_charged, "its own time is charged to it")
    assert seconds_of(short, "waited_seconds") - waited_before > LONG_SECONDS


def test_who_breaks_its_context_leaves_all_to_the_others_at_once(claim: Callable[..., Any]) -> None:
    """CASES 40: by one that stays, with launches under way of which nobody hears any more."""
    broken, there = claim(1 << 30, share="3/4", tenant="alice"), claim(1 << 30, share="1/4", tenant="bob")
    program = broken.start("""
        start()
        busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_2000us"))
        say("busy")
        code = cu.CUresult.CUDA_SUCCESS
        while code == cu.CUresult.CUDA_SUCCESS:
            (code,) = cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)
        say(int(code))
        sys.stdin.readline()
    """)
    neighbour = begin(there)
    assert program.stdout.readline() == "busy\n"
    some_time(lambda figures: 0.1 < figures[0] < 0.35, lambda: parts([neighbour]), "a quarter")

    faults.raise_xid(broken.granted.edits.env["JUPYTER_VGPU_SIM"], ILLEGAL_ADDRESS_XID, pid=program.pid)

    assert program.stdout.readline() == "700\n"
    some_time(has_all, lambda: parts([neighbour]), "all of it")
    assert program.poll() is None


THREADS = """
start()
busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_500us"))
say("begins")
until = time.monotonic() + 3
while time.monotonic() < until:
    ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
ok((cu.cuCtxSynchronize()[0], None))
say(len(os.listdir("/proc/self/task")))
"""


def test_alone_without_a_ceiling_nobody_is_steered_and_no_thread_is_ours(node: Any, claim: Callable[..., Any]) -> None:
    """CASES 41: the agent looks fifty times a second at most."""
    held = claim(1 << 30)
    free = held.start(THREADS, LD_PRELOAD=None)
    assert free.stdout.readline() == "begins\n"
    without_library = free.communicate()[0]

    program = held.start(THREADS)
    assert program.stdout.readline() == "begins\n"
    trace = node.hub.trace(1.0)
    with_library = program.communicate()[0]

    (device,) = held.usage()["devices"]
    (runner,) = [runner["runner"] for runner in trace["runners"] if runner["claim"] == held.claim_id]
    seen = [kind for _, number, kind, _ in trace["records"] if number == runner]
    assert with_library == without_library
    assert device["launches"] > 100
    assert (device["throttled_launches"], device["gated_seconds"], device["governed"]["closed_seconds"]) == (0, 0, 0)
    assert set(seen) <= {"charged", "under way"}
    assert 0 < seen.count("under way") <= 55
