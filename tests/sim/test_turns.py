"""Several processes on one board: they take turns, and a dead one takes none."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from jupyter_vgpu.sim.faults import set_mps

ALWAYS_BUSY = """
    start()
    launch(function("sim_busy_600000000us"))
    say("ready")
    heard()
"""

# A measurement counts when all of it was queued before the device came to it; a host that paused meanwhile queues it
# again, behind something longer.
TIMED = """
    start()
    first, last = ok(*cuda.cuEventCreate(0)), ok(*cuda.cuEventCreate(0))
    def timed(name, launches=1, blocks=4, is_behind=True):
        kernel = function(name)
        for behind in range(20):
            if is_behind:
                launch(function(f"sim_busy_{10000 << min(behind, 9)}us"))
            ok(*cuda.cuEventRecord(first, 0))
            for _ in range(launches):
                ok(*cuda.cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, 0, 0, 0))
            ok(*cuda.cuEventRecord(last, 0))
            was_queued = code(*cuda.cuEventQuery(first)) == 600
            ok(*cuda.cuEventSynchronize(last))
            if was_queued:
                return ok(*cuda.cuEventElapsedTime(first, last))
        raise AssertionError("never queued in time")
"""

TURN, SWITCH = 2.08, 0.1975


def neighbours(node: Any, count: int) -> list[Any]:
    clients = [node.start(ALWAYS_BUSY) for _ in range(count)]
    for client in clients:
        assert client.hear() == "ready"
    return clients


@pytest.mark.parametrize("count", [1, 3])
def test_who_shares_the_board_waits_for_its_turns(node: Any, count: int) -> None:
    neighbours(node, count)

    milliseconds = node.run(TIMED + "    say(timed('sim_busy_20000us'))")

    lost = count * (TURN + SWITCH) + SWITCH
    # Nine or ten turns are lost in it, as it falls.
    assert min(abs(milliseconds - 20 - turns * lost) for turns in (9, 10)) < 0.1


def test_the_wait_for_the_first_turn_is_not_in_the_events(node: Any) -> None:
    neighbours(node, 1)

    assert node.run(TIMED + "    say(timed('sim_busy_100us', is_behind=False))") == pytest.approx(0.102, abs=0.001)


def test_alone_nothing_is_lost(node: Any) -> None:
    assert node.run(TIMED + "    say(timed('sim_busy_20000us'))") == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_a_dead_neighbour_takes_no_more_turns(node: Any, how: signal.Signals) -> None:
    (neighbour,) = neighbours(node, 1)
    os.kill(neighbour.pid, how)
    neighbour.process.wait(60)

    assert node.run(TIMED + "    say(timed('sim_busy_20000us'))") == pytest.approx(20, abs=0.1)


def test_a_stopped_neighbour_stops_nobody(node: Any) -> None:
    (neighbour,) = neighbours(node, 1)
    os.kill(neighbour.pid, signal.SIGSTOP)

    assert node.run(TIMED + "    say(timed('sim_busy_5000us'))") > 5  # its queued work goes on, as on a real board


def test_under_mps_nobody_waits_for_turns(node: Any) -> None:
    set_mps(node.state, True)
    neighbours(node, 1)

    assert node.run(TIMED + "    say(timed('sim_busy_20000us'))") == pytest.approx(20, abs=0.5)


def test_more_blocks_than_fit_at_once_take_longer(node: Any) -> None:
    one, two = node.run(TIMED + "    say([timed('sim_busy_1000us', 1, 864), timed('sim_busy_1000us', 1, 865)])")

    assert two - one == pytest.approx(0.998, abs=0.01)


@pytest.mark.parametrize(
    ("blocks", "together"), [pytest.param(20, True, id="small ones"), pytest.param(864, False, id="large ones")]
)
def test_launches_of_several_streams_run_together_while_there_is_room(node: Any, blocks: int, together: bool) -> None:
    milliseconds = node.run(
        TIMED
        + f"""
    kernel = function("sim_busy_50000us")
    streams = [ok(*cuda.cuStreamCreate(1)) for _ in range(4)]
    done = [ok(*cuda.cuEventCreate(2)) for _ in streams]
    for behind in range(10):
        # As above: all is queued before the device comes to it.
        launch(function(f"sim_busy_{{10000 << behind}}us"), streams[0])
        ok(*cuda.cuEventRecord(first, streams[0]))
        for stream in streams[1:]:
            ok(*cuda.cuStreamWaitEvent(stream, first, 0))
        for stream in streams:
            ok(*cuda.cuLaunchKernel(kernel, {blocks}, 1, 1, 256, 1, 1, 0, stream, 0, 0))
        for event, stream in zip(done, streams):
            ok(*cuda.cuEventRecord(event, stream))
            ok(*cuda.cuStreamWaitEvent(streams[0], event, 0))
        ok(*cuda.cuEventRecord(last, streams[0]))
        was_queued = code(*cuda.cuEventQuery(first)) == 600
        ok(*cuda.cuEventSynchronize(last))
        if was_queued:
            break
    assert was_queued
    say(ok(*cuda.cuEventElapsedTime(first, last)))
    """
    )

    assert (milliseconds < 100) == together


def test_the_host_waits_when_a_stream_s_queue_is_full(node: Any) -> None:
    assert node.run("""
        start()
        stream = ok(*cuda.cuStreamCreate(1))
        first, kernel = function("sim_busy_1000000us"), function("sim_busy_1us")
        event = ok(*cuda.cuEventCreate(2))
        launch(first, stream)
        ok(*cuda.cuEventRecord(event, stream))
        states = []
        for number in range(1022):
            launch(kernel, stream)
            if number in (1018, 1021):
                states.append(code(*cuda.cuEventQuery(event)))
        say(states)
    """) == [600, 0]
