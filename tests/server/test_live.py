"""The event stream: one upstream reader, no activity, a clean end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

Server = Any
Stream = Any
Relay = Any
OpenStream = Callable[..., Stream]

# A look asks the agent for the usage, and now and then for the slice and what was noticed.
ASKED_PER_LOOK = 3
# So much, or more, lies between two answers of which the agent kept the second back: it keeps them for five.
KEPT_BACK_SECONDS = 4.0


def test_an_event_has_the_slice_and_its_use(server: Server, open_stream: OpenStream) -> None:
    stream = open_stream(server)

    event = stream.next()

    assert stream.response.headers["content-type"] == "text/event-stream"
    assert event["state"] == "ok"
    assert event["slice"]["profile"] == "1/4 GPU"
    assert event["usage"]["claim"] == event["slice"]["claim"]


@pytest.mark.usefixtures("at_work")
def test_events_keep_coming(server: Server, open_stream: OpenStream) -> None:
    stream = open_stream(server)

    times = [stream.next()["usage"]["time"] for _ in range(3)]

    assert times == sorted(set(times))


@pytest.mark.usefixtures("at_work")
def test_many_streams_have_one_upstream_reader(server: Server, relay: Relay, open_stream: OpenStream) -> None:
    asked_before, began_at = relay.asked, time.time()
    streams = [open_stream(server) for _ in range(6)]

    times = {stream.next()["usage"]["time"] for stream in streams for _ in range(2)}
    asked, counted_at = relay.asked - asked_before, time.time()
    [history] = server.get("jupyter-vgpu/history")["history"]
    # Every look that was asked for until then is in the history once a later one is.
    while max(history["time"]) <= counted_at:
        times.add(streams[0].next()["usage"]["time"])
        [history] = server.get("jupyter-vgpu/history")["history"]

    # What one stream saw the others saw too; six readers would have asked six times as often.
    looks = [at for at in history["time"] if began_at < at]
    assert asked <= ASKED_PER_LOOK * (len(looks) + 1)
    assert len(times) <= len(looks) + 1


def test_while_nothing_changes_the_agent_keeps_its_answer_back(
    server: Server, relay: Relay, open_stream: OpenStream
) -> None:
    stream = open_stream(server)
    at = stream.next()["usage"]["time"]

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        asked, before, at = relay.asked, at, stream.next()["usage"]["time"]
        if at - before >= KEPT_BACK_SECONDS and relay.asked - asked <= ASKED_PER_LOOK:
            break

    # Both by what the agent says of itself, and by how often it was asked: one look, for seconds.
    assert at - before >= KEPT_BACK_SECONDS
    assert relay.asked - asked <= ASKED_PER_LOOK


@pytest.mark.slow
def test_while_nothing_changes_the_server_sleeps(server: Server, open_stream: OpenStream) -> None:
    """One wake-up is the agent's answer; looking at the Jupyter kernels in between would be two more.

    Whether the server sleeps already when its event is here is chance: one more or less.
    """
    stream = open_stream(server)
    at, woken = stream.next()["usage"]["time"], wake_ups(server)

    deadline, fewest = time.monotonic() + 120, 1000
    while fewest > 1 and time.monotonic() < deadline:
        before, before_woken = at, woken
        at, woken = stream.next()["usage"]["time"], wake_ups(server)
        if at - before >= KEPT_BACK_SECONDS:
            fewest = min(fewest, woken - before_woken)

    assert fewest <= 1


def wake_ups(server: Server) -> int:
    """Return how often a server's event loop has gone to sleep so far."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)
    assert found
    return int(found[1])


def test_a_jupyter_kernel_that_comes_or_goes_is_told_though_the_agent_keeps_its_answer_back(
    server: Server, open_stream: OpenStream
) -> None:
    stream = open_stream(server)
    told_at = [stream.next()["usage"]["time"]]

    def wait_until_quiet() -> None:
        while len(told_at) < 2 or told_at[-1] - told_at[-2] < KEPT_BACK_SECONDS:
            told_at.append(stream.next()["usage"]["time"])

    def wait_seconds(are_there: bool) -> float:
        """Return how long after the last event that was read it is told: where nobody tells, that is a whole hold."""
        since = told_at[-1]
        is_told = False
        while not is_told:
            event = stream.next()
            told_at.append(event["usage"]["time"])
            is_told = bool(event["notebooks"]) == are_there
        return told_at[-1] - since

    came = went = KEPT_BACK_SECONDS
    deadline = time.monotonic() + 120
    # A start takes long where the machine is busy.
    while max(came, went) >= KEPT_BACK_SECONDS and time.monotonic() < deadline:
        wait_until_quiet()
        with server.client() as client:
            kernel_id = client.post("api/kernels").raise_for_status().json()["id"]
        came = min(came, wait_seconds(are_there=True))
        wait_until_quiet()
        with server.client() as client:
            client.delete(f"api/kernels/{kernel_id}").raise_for_status()
        went = min(went, wait_seconds(are_there=False))

    assert max(came, went) < KEPT_BACK_SECONDS


def test_nobody_asks_the_agent_while_nobody_looks(server: Server, relay: Relay, open_stream: OpenStream) -> None:
    stream = open_stream(server)
    stream.next()

    stream.close()

    for _ in range(10):
        asked = relay.asked
        time.sleep(1.5)
        if relay.asked == asked:
            break
    assert relay.asked == asked


@pytest.mark.usefixtures("at_work")
def test_looking_does_not_count_as_activity(server: Server, open_stream: OpenStream) -> None:
    before = server.get("api/status")["last_activity"]

    stream = open_stream(server)
    for _ in range(2):
        stream.next()
    server.get("jupyter-vgpu/slice")
    server.get("jupyter-vgpu/usage")
    stream.close()

    assert server.get("api/status")["last_activity"] == before
    server.get("api/contents")
    assert server.get("api/status")["last_activity"] > before


@pytest.mark.usefixtures("at_work")
def test_a_stalled_agent_stalls_nothing_else(server: Server, relay: Relay, open_stream: OpenStream) -> None:
    stream = open_stream(server)
    assert stream.next()["state"] == "ok"
    waits: list[tuple[float, float]] = []

    def ask_until_the_agent_is_missed() -> None:
        state = "ok"
        while state == "ok":
            started = time.monotonic()
            state = server.get("jupyter-vgpu/usage")["state"]
            waits.append((started, time.monotonic()))

    relay.is_stalled = True
    try:
        asking = threading.Thread(target=ask_until_the_agent_is_missed, daemon=True)
        asking.start()
        meanwhile = []
        while asking.is_alive():
            started = time.monotonic()
            server.get("api/status")
            meanwhile.append((started, time.monotonic()))
            time.sleep(0.05)
        states = [stream.next()["state"]]
        while states[-1] == "ok":
            states.append(stream.next()["state"])
    finally:
        relay.is_stalled = False

    first, last = waits[-1]
    # A loop that waits for the agent would have answered none, or one, within the seconds that the agent was given.
    assert len([1 for started, ended in meanwhile if first < started and ended < last]) >= 3
    assert states[-1] == "agent-unreachable"
    while stream.next()["state"] != "ok":
        pass


@pytest.mark.usefixtures("at_work")
def test_who_joins_a_stream_that_runs_sees_at_once_what_the_others_see(server: Server, open_stream: OpenStream) -> None:
    first = open_stream(server)
    seen = [first.next()["usage"]["time"] for _ in range(2)]

    joined = open_stream(server).next()["usage"]["time"]
    asked = server.get("jupyter-vgpu/usage")["usage"]["time"]

    while seen[-1] < max(joined, asked):
        seen.append(first.next()["usage"]["time"])
    assert {joined, asked} <= set(seen), "a reading was made for one of them alone"


@pytest.mark.usefixtures("at_work")
def test_a_connection_that_the_agent_closes_is_opened_anew(
    server: Server, relay: Relay, open_stream: OpenStream
) -> None:
    stream = open_stream(server)
    stream.next()

    states = []
    for _ in range(3):
        relay.hang_up()
        states.append(stream.next()["state"])

    assert states == ["ok"] * 3


def test_what_does_not_change_is_told_once(server_without_slice: Server, open_stream: OpenStream) -> None:
    stream = open_stream(server_without_slice, wait_seconds=3)
    assert stream.next()["state"] == "no-slice"

    with pytest.raises(httpx.ReadTimeout):
        stream.next()


@pytest.mark.slow
def test_a_stream_is_never_silent_for_a_minute_also_where_the_agent_does_not_answer(
    server: Server, relay: Relay, open_stream: OpenStream
) -> None:
    stream = open_stream(server, wait_seconds=60)
    relay.is_stalled = True
    try:
        while stream.next()["state"] == "ok":
            pass
        # The state is told once; the stream's wait ends what says nothing after.
        signs = [stream.next_comment() for _ in range(2)]
    finally:
        relay.is_stalled = False

    assert signs == ["nothing new"] * 2


def test_streams_end_cleanly_when_the_server_stops(
    start_server: Callable[..., Server], open_stream: OpenStream
) -> None:
    server = start_server()
    streams = [open_stream(server) for _ in range(3)]
    for stream in streams:
        stream.next()

    with server.client() as client:
        client.post("api/shutdown").raise_for_status()

    for stream in streams:
        with pytest.raises(EOFError):
            stream.next()
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log()
