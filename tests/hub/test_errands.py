"""Threads that do what blocks, and whose time it is."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from jupyter_vgpu.hub.bell import Bell, Rings
from jupyter_vgpu.hub.errands import Errand, Errands
from jupyter_vgpu.hub.timing import Stopwatch

GENEROUS_SECONDS = 60.0


@pytest.mark.asyncio
async def test_time_for_which_the_loop_is_at_work_for_others_is_late() -> None:
    may_go_on = threading.Event()
    errand = Errands().to_agent(may_go_on.wait, GENEROUS_SECONDS)
    busy_seconds = 0.2

    async def own() -> Stopwatch:
        with Stopwatch().running() as stopwatch:
            await errand.result()
        return stopwatch

    start = asyncio.ensure_future(own())
    await asyncio.sleep(0)  # it waits
    may_go_on.set()
    errand._done.result(GENEROUS_SECONDS)  # the errand has been done, and the loop has not heard of it
    time.sleep(busy_seconds)
    stopwatch = await start

    assert busy_seconds <= stopwatch.late_seconds <= stopwatch.seconds


@pytest.mark.asyncio
async def test_time_outside_of_a_stopwatch_is_counted_by_none() -> None:
    errands = Errands()
    with Stopwatch().running() as stopwatch:
        pass

    await errands.ask_agent(time.monotonic)

    assert stopwatch.late_seconds == 0


@pytest.mark.asyncio
async def test_errands_in_turn_are_done_in_order_and_may_say_what_comes_of_others() -> None:
    errands, done = Errands(), []
    another = Errand[str]()

    def first() -> None:
        done.append("first")
        another.end("said by the first")

    sent = [errands.in_turn(first), *(errands.in_turn(done.append, name) for name in ("second", "third"))]
    await asyncio.gather(*(errand.result() for errand in sent))

    assert done == ["first", "second", "third"]
    assert await another.result() == "said by the first"


@pytest.mark.asyncio
async def test_who_is_cancelled_leaves_the_errand_to_be_done() -> None:
    errands, may_go_on, has_begun = Errands(), threading.Event(), threading.Event()

    def work() -> str:
        has_begun.set()
        assert may_go_on.wait(GENEROUS_SECONDS)
        return "done"

    errand = errands.to_agent(work)
    waiting = asyncio.ensure_future(errand.result())
    assert await asyncio.to_thread(has_begun.wait, GENEROUS_SECONDS)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    may_go_on.set()

    assert await errand.future == "done"


@pytest.mark.asyncio
async def test_a_bell_tells_when_it_was_first_rung_and_why_and_forgets_it_when_it_was_heard() -> None:
    bell = Bell()
    times = [time.monotonic()]
    for is_free in (False, True, True):
        bell.ring(is_free)
        times.append(time.monotonic())

    await bell.wait(GENEROUS_SECONDS)

    rings = bell.hear()
    assert rings.woken_at is not None and rings.freed_at is not None
    assert times[0] <= rings.woken_at <= times[1] <= rings.freed_at <= times[2]
    assert bell.hear() == Rings()
    await bell.wait(0.01)  # nobody rings: it is over all the same
