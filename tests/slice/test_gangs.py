"""Tenants with a process on each of two devices, which wait for each other: windows on both devices together.

What is counted are collectives, by the tenants themselves. Where a gate is closed for one rank only, the other's
stream stands still; what is asserted is that everybody goes on, as often as it is asked, and that what each has follows
the shares: without a governor everybody would have the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

LAUNCH_US = 2000
PATIENCE_SECONDS = 180.0
GIB = 1 << 30
# So many more collectives mean that a tenant goes on: more than could have been under way.
SOME = 10


class Ranks:
    """A running tenant's processes."""

    def __init__(self, held: Any, program: Path, devices: int) -> None:
        self.held = held
        self._process = subprocess.Popen(
            [program, str(devices), str(LAUNCH_US)],
            env=held.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pids = [int(word) for word in self._line().split()]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the tenant has ended"
        return line

    def done(self) -> int:
        """Return how many collectives are over on all of its devices."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return min(int(word) for word in self._line().split())

    def end(self) -> None:
        """End its processes and give its slice back."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)  # their parent never waits for them: the ids are still theirs
        self._process.kill()
        self._process.communicate()
        self.held.end()


@pytest.fixture(scope="session")
def collective(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `collective.c`, compiled."""
    program = tmp_path_factory.mktemp("collective") / "collective"
    compiler = shutil.which("cc") or "gcc"
    source = Path(__file__).with_name("collective.c")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1"]
    subprocess.run([compiler, "-o", program, source, *flags], check=True)
    return program


@pytest.fixture(scope="module")
def two_boards(start_agent: Callable[..., Any]) -> Any:
    """Return an agent on two simulated H200."""
    return start_agent("2xh200")


@pytest.fixture
def begin(two_boards: Any, collective: Path) -> Iterator[Callable[..., Ranks]]:
    """Return a function that starts a tenant with so many devices of the two; all are ended after the test."""
    with ExitStack() as cleanup:

        def start(tenant: str, share: str, devices: int = 2) -> Ranks:
            held = two_boards.claim(4 * GIB, share=share, tenant=tenant, devices=devices)
            ranks = Ranks(held, collective, devices)
            cleanup.callback(ranks.end)
            return ranks

        yield start


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def all_go_on(tenants: Sequence[Ranks], times: int = 1) -> None:
    """Wait until each has finished some more, again and again."""
    for _ in range(times):
        before = [ranks.done() for ranks in tenants]
        until(
            lambda before=before: all(  # type: ignore[misc]
                ranks.done() - old >= SOME for ranks, old in zip(tenants, before, strict=True)
            ),
            "somebody stands still",
        )


def ratios(tenants: Sequence[Ranks], to: Ranks) -> list[float]:
    """Return how many collectives each finishes for each one of another tenant's, over some time."""
    before = [ranks.done() for ranks in tenants], to.done()
    until(lambda: to.done() - before[1] >= 6 * SOME, "it stands still")
    return [(ranks.done() - old) / (to.done() - before[1]) for ranks, old in zip(tenants, before[0], strict=True)]


def have_three_times_as_much(tenants: Sequence[Ranks], as_one: Ranks) -> None:
    """Wait until each has three times as much as the last, over some time: the driver alone would give all the same."""
    until(lambda: all(2.2 < ratio < 4.0 for ratio in ratios(tenants, as_one)), "never three times as much")


def is_open(at: int, records: Sequence[tuple[int, str]]) -> bool:
    """Return whether a gate is open at a moment; as long as it was not seen to move, it is."""
    moves = [kind for moved, kind in records if moved <= at and kind.startswith("gate")]
    return not moves or moves[-1] == "gate opened"


def test_two_gangs_have_time_by_their_shares_in_windows_on_all_their_devices(
    two_boards: Any, begin: Callable[..., Ranks]
) -> None:
    three, one = gangs = [begin("alice", "3/4"), begin("bob", "1/4")]

    all_go_on(gangs, times=3)

    have_three_times_as_much([three], one)
    all_go_on(gangs, times=3)

    windows = dict.fromkeys((ranks.held.claim_id for ranks in gangs), 0)

    def have_had_some() -> bool:
        """Check that windows begin on both devices at the same instants, with both gates open; count them."""
        seen = two_boards.hub.trace(1.0)
        records: dict[int, list[tuple[int, str]]] = {runner["runner"]: [] for runner in seen["runners"]}
        for at, number, kind, _ in seen["records"]:
            records[number].append((at, kind))
        begun: dict[str, list[list[int]]] = {claim_id: [] for claim_id in windows}
        for runner in seen["runners"]:
            times = [at for at, kind in records[runner["runner"]] if kind == "window begun"]
            assert all(is_open(at, records[runner["runner"]]) for at in times)
            begun[runner["claim"]].append(times)
        for claim_id, (one, other) in begun.items():
            assert one == other
            windows[claim_id] += len(one)
        return min(windows.values()) >= 3

    until(have_had_some, "windows are not had by both")


@pytest.mark.slow
def test_gangs_that_overlap_in_part_go_on_and_have_time_by_their_shares(begin: Callable[..., Ranks]) -> None:
    both, one, other = begin("alice", "1/4"), begin("bob", "3/4", devices=1), begin("carol", "3/4", devices=1)

    all_go_on([both, one, other], times=3)

    have_three_times_as_much([one, other], both)
    all_go_on([both, one, other], times=3)


def test_a_gang_without_one_of_its_ranks_holds_nobody_up(begin: Callable[..., Ranks]) -> None:
    gone, there = begin("alice", "1/2"), begin("bob", "1/2")
    all_go_on([gone, there], times=2)

    os.kill(gone.pids[1], signal.SIGKILL)

    all_go_on([there], times=10)
    # Its other rank waits for ever, as it would natively.
    stood_at = gone.done()
    all_go_on([there], times=5)
    assert gone.done() == stood_at


@pytest.mark.slow
def test_gangs_go_on_without_an_agent_and_under_the_next(two_boards: Any, begin: Callable[..., Ranks]) -> None:
    three, one = begin("alice", "3/4"), begin("bob", "1/4")
    have_three_times_as_much([three], one)

    two_boards.end(signal.SIGKILL)

    all_go_on([three, one], times=3)
    two_boards.start()
    all_go_on([three, one], times=3)
    have_three_times_as_much([three], one)
