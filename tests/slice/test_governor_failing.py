"""What fails, fails towards native sharing: nobody stops, and nobody has more than its ceiling.

Each test says what becomes of the others, and of the one itself, when an agent, a tenant or a clock does what it should
not. On the simulated board, under the real agent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.launching import begin, count, has_all, parts, some_time
from harness.waiting import wait_until

DAY_SECONDS = 86400
TRACE_SECONDS = 3.0
MOST_TRIES = 5
# So short that who always has some is soon given windows.
SHORT_US = 200


def end_agent(agent: Any) -> None:
    agent.end(signal.SIGKILL)


def stop_agent(agent: Any) -> None:
    os.kill(agent.pid, signal.SIGSTOP)


def continue_agent(agent: Any) -> None:
    os.kill(agent.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("goes", "comes"),
    [(end_agent, lambda agent: agent.start()), (stop_agent, continue_agent)],
    ids=["killed", "stopped"],
)
def test_without_an_agent_nobody_stops_and_a_ceiling_is_kept(
    start_agent: Callable[[str], Any], goes: Callable[[Any], None], comes: Callable[[Any], Any]
) -> None:
    agent = start_agent("a100-80")
    limited = agent.claim(1 << 30, share="1/4", ceiling="1/4")
    free = agent.claim(1 << 30, share="1/4", tenant="bob")
    programs = [begin(limited), begin(free)]
    try:
        some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts(programs), "a quarter")

        goes(agent)

        some_time(
            lambda figures: 0.15 < figures[0] < 0.35 and 0.4 < figures[1] < 0.9,
            lambda: parts(programs),
            "kept without it",
        )
        comes(agent)
        some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts(programs), "a quarter again")
    finally:
        continue_agent(agent)
        for held in (limited, free):
            held.end()


class Trace:
    """What the governor does for some seconds, from now on."""

    def __init__(self, agent: Any) -> None:
        """Begin to look; the first records may come a little later."""
        self._seen: dict[str, Any] = {}
        self._thread = threading.Thread(target=lambda: self._seen.update(agent.hub.trace(TRACE_SECONDS)))
        self._thread.start()

    def holder(self, at_ns: int) -> str | None:
        """Return whose window it was at a moment of those; waits for their end."""
        self._thread.join()
        claims = {runner["runner"]: runner["claim"] for runner in self._seen["runners"]}
        windows = [
            claims.get(runner) if kind == "window begun" else None
            for time_ns, runner, kind, _ in self._seen["records"]
            if time_ns <= at_ns and kind.startswith("window")
        ]
        return windows[-1] if windows else None


def windows_of(held: Any) -> int:
    return int(held.usage()["devices"][0]["governed"]["windows"])


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_who_is_lost_in_its_window_leaves_all_to_the_others(
    node: Any, claim: Callable[..., Any], how: signal.Signals
) -> None:
    """Tried some times, until it held a window when the signal came; beside one the same has to hold."""
    there = claim(1 << 30, share="1/4", tenant="bob")
    second = begin(there, launch_us=SHORT_US)

    def is_lost_in_its_window() -> bool:
        gone = node.claim(1 << 30, share="3/4", tenant="alice")
        try:
            first = begin(gone, launch_us=SHORT_US)
            some_time(
                lambda figures: figures[0] > 0.5 > 2 * figures[1] > 0,
                lambda: parts([first, second], launch_us=SHORT_US),
                "three to one",
            )
            trace = Trace(node)
            had = windows_of(gone)
            wait_until(lambda: windows_of(gone) > had + 8, "it has windows, and is seen to have them")
            first.send_signal(how)
            at_ns = time.monotonic_ns()
            some_time(has_all, lambda: parts([second], launch_us=SHORT_US), "all of it")
            return trace.holder(at_ns) == gone.claim_id
        finally:
            gone.end()

    for _ in range(MOST_TRIES):
        if is_lost_in_its_window():
            break


def test_who_was_stopped_has_its_share_again_when_it_goes_on(claim: Callable[..., Any]) -> None:
    stopped, there = claim(1 << 30, share="3/4", tenant="alice"), claim(1 << 30, share="1/4", tenant="bob")
    programs = [begin(stopped), begin(there)]
    some_time(lambda figures: figures[0] > 0.6, lambda: parts(programs), "three quarters")

    programs[0].send_signal(signal.SIGSTOP)
    some_time(has_all, lambda: parts(programs[1:]), "all of it")
    programs[0].send_signal(signal.SIGCONT)

    some_time(lambda figures: figures[0] > 0.6 and figures[1] > 0.1, lambda: parts(programs), "three quarters again")


# Launches, and writes anything at all into its claim's usage page meanwhile.
SPOILER = """
import ctypes, random, re, threading
start()
busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text\\0")), b"sim_busy_2000us"))
context = ok(cu.cuCtxGetCurrent())
ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
begin, end = (int(part, 16) for part in re.search(
    r"^(\\w+)-(\\w+) rw-s .*jvgpu-usage", open("/proc/self/maps").read(), re.MULTILINE).groups())
dice = random.Random(7)
def spoil():
    while True:
        noise = dice.randbytes(2112) if dice.random() < 0.8 else bytes([dice.choice((0, 0x7f, 0xff))]) * 2112
        ctypes.memmove(begin + 64, noise, len(noise))
        time.sleep(0.001)
threading.Thread(target=spoil, daemon=True).start()
say("spoils")
while True:
    ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, 0, 0, 0)[0], None))
"""


@pytest.mark.slow
def test_a_usage_page_of_random_bytes_takes_no_time_from_a_neighbour(claim: Callable[..., Any]) -> None:
    """The driver's own turns leave it 0.45 of the time."""
    spoiler, neighbour = claim(1 << 30, share="1/2", tenant="mallory"), claim(1 << 30, share="1/2", tenant="bob")
    busy = begin(neighbour)
    count([busy])
    assert spoiler.start(SPOILER).stdout.readline() == "spoils\n"

    # Each of five seconds, so that what is only queued is none of it.
    some_time(
        lambda figures: sum(figures) > 5 * 0.35 and max(figures) < 1,
        lambda: [parts([busy])[0] for _ in range(5)],
        "what the driver gives",
    )


def test_a_launch_that_never_ends_leaves_its_neighbour_the_drivers_turns(claim: Callable[..., Any]) -> None:
    """A persistent kernel: nobody waits for its end, and nobody can tell it to stop."""
    endless, neighbour = claim(1 << 30, share="1/2", tenant="alice"), claim(1 << 30, share="1/2", tenant="bob")
    programs = [begin(neighbour), begin(endless, launch_us=600_000_000)]
    count(programs)

    some_time(lambda figures: 0.35 < figures[0] < 0.6, lambda: parts(programs[:1], 2.0), "every second turn")


def test_a_clock_that_is_not_the_agents_stops_nobody_and_keeps_the_ceiling(start_agent: Callable[[str], Any]) -> None:
    """A container may have a time namespace of its own: to its processes the governor seems long gone.

    On a board of its own: a simulated board's programs agree by the clock on whose turn it is.
    """
    wrapped = ["unshare", "--time", "--monotonic", str(DAY_SECONDS)]
    if subprocess.run([*wrapped, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a time namespace needs rights that there are not")
    held = start_agent("a100-80").claim(1 << 30, share="1/4", ceiling="1/4")
    try:
        program = begin(held, wrapped=wrapped)

        some_time(lambda figures: 0.2 < figures[0] < 0.3, lambda: parts([program]), "a quarter")
    finally:
        held.end()


@pytest.mark.slow
def test_two_thousand_threads_at_a_gate_all_come_through_and_keep_the_ceiling(
    claim: Callable[..., Any], compiled: Callable[[Path], Path]
) -> None:
    held, neighbour = claim(1 << 30, share="1/4", ceiling="1/4"), claim(1 << 30, share="1/4", tenant="bob")
    other = begin(neighbour)
    program = subprocess.Popen(
        [compiled(Path(__file__).with_name("launch_at_once.c")), "1", "2000", "1000"],
        env=held.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdin is not None and program.stdout is not None
        assert program.stdout.readline() == "start\n"
        before, begun = count([other])[0], time.monotonic()
        program.stdin.write("\n")
        program.stdin.flush()
        made = program.stdout.readline()
        took, goes_on = time.monotonic() - begun, count([other])[0] - before
    finally:
        program.kill()
        program.communicate()

    assert made == "2000\n"
    assert took > 6, "two seconds of launches at a quarter"
    assert goes_on > 0
