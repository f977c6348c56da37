"""Hostile input: the agent stays up, other tenants notice nothing, and each offender costs a line of log a minute."""

from __future__ import annotations

import math
import mmap
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

OK = 0
NOBODY = 65534
# Where the tests run as root, the offender is another user, as on a shared machine.
OFFENDER = NOBODY if os.geteuid() == 0 else os.geteuid()
Ask = Callable[..., Any]


@pytest.fixture
def public_agent(agent_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    """An agent in a directory that other users can reach; the test run's own folder is closed to them."""
    with agent_with(base="/tmp") as agent:
        yield agent


@pytest.fixture
def hostile() -> Iterator[Callable[..., list[subprocess.Popen[str]]]]:
    """Start hostile processes at once; they hold what they hold until the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(agent: Any, name: str, what: str, count: int, processes: int = 1) -> list[subprocess.Popen[str]]:
        kind = "seqpacket" if name == "attach.sock" else "stream"
        script = Path(__file__).with_name("hostile.py")
        flock = [
            subprocess.Popen(
                [
                    *(sys.executable, str(script), str(agent.folder / name), kind, what, str(count), str(seed)),
                    *([str(OFFENDER)] if os.geteuid() != OFFENDER else []),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in range(processes)
        ]
        started.extend(flock)
        return flock

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Neighbour:
    """An honest tenant that goes on attaching, and watches the heartbeat, while something happens."""

    def __init__(self, agent: Any, attach: Ask) -> None:
        self._agent, self._attach = agent, attach
        self._granted = agent.claim("neighbour")
        self._is_over = threading.Event()
        self.attached = attach(agent, self._granted)
        self.attached.write_use(held=5 << 20, launches=3)
        self.beats: set[int] = set()
        self.attaches = 0
        self.refusals: list[Any] = []
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        # While it lasts, and until the heart has beaten: a short flood may fit between two beats.
        while not self._is_over.wait(0.02) or len(self.beats) < 3:
            self.beats.add(self.attached.control()["heartbeat_ns"])
            other = self._attach(self._agent, self._agent_claim)
            self.attaches += 1
            if other is None or other.status != OK:
                self.refusals.append(other)

    @property
    def _agent_claim(self) -> Any:
        return self._second

    def with_second(self) -> Neighbour:
        """Attach again and again to a second claim, so that the first one's page stays what it is."""
        self._second = self._agent.claim("neighbour's other")
        return self

    def noticed_nothing(self) -> None:
        """Fail where something was to be noticed."""
        assert self.refusals == []
        assert self.attaches > 0
        (device,) = self._agent.hub.usage(self._granted.claim["claim"])["devices"]
        assert (device["memory_used_bytes"], device["launches"]) == (5 << 20, 3)


def figures_in(part: Any) -> Iterator[float]:
    """Return every number in an answer, however deep."""
    if isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from figures_in(each)
    elif isinstance(part, int | float):
        yield part


def finished(flock: list[subprocess.Popen[str]]) -> int:
    """Return how many connections they got together, once all have."""
    got = 0
    for process in flock:
        assert process.stdout is not None
        got += int(process.stdout.readline())
    return got


@pytest.mark.parametrize(
    ("name", "what", "count", "processes"),
    [
        pytest.param("attach.sock", "hold", 2500, 4, id="ten thousand silent connections"),
        pytest.param("attach.sock", "churn", 5000, 2, id="ten thousand that leave at once"),
        pytest.param("attach.sock", "garbage", 2000, 2, id="garbage to attach to"),
        pytest.param("user.sock", "garbage", 500, 2, id="garbage for HTTP"),
        pytest.param("user.sock", "hold", 500, 2, id="silent connections for HTTP"),
    ],
)
def test_others_notice_nothing_of(
    public_agent: Any, attach: Ask, hostile: Ask, name: str, what: str, count: int, processes: int
) -> None:
    neighbour = Neighbour(public_agent, attach).with_second()

    with neighbour:
        got = finished(hostile(public_agent, name, what, count, processes))

    assert got == count * processes
    neighbour.noticed_nothing()
    assert public_agent.hub.health()["pid"] == public_agent.pid
    # The same user may have been sent away for one thing on one socket and for another on the other.
    lines = [line for line in public_agent.log.splitlines() if " W " in line or " E " in line]
    assert sum(f"uid {OFFENDER}" in line for line in lines) <= public_agent.minutes, lines
    assert sum("Traceback" in line for line in public_agent.log.splitlines()) == 0


def test_a_request_that_is_sent_again_and_again_takes_one_slot(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    slots = {attach(agent, granted).slot for _ in range(300)}

    assert slots == {0}
    assert len(agent.hub.usage(granted.claim["claim"])["processes"]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_in_a_usage_page_spoil_nobody_elses_figures(agent: Any, attach: Ask, seed: int) -> None:
    dice = random.Random(seed)
    spoiler, other = agent.claim("spoiler"), agent.claim("other")
    attached, honest = attach(agent, spoiler), attach(agent, other)
    honest.write_use(held=5 << 20, launches=3)
    total_bytes = agent.hub.devices()[0]["total_bytes"]

    deadline = time.monotonic() + 1  # four of the agent's rounds
    with mmap.mmap(attached.usage_fd, 0) as page:
        while time.monotonic() < deadline:
            style = dice.randrange(3)
            if style == 0:
                page[:] = dice.randbytes(len(page))
            elif style == 1:
                at = dice.randrange(0, len(page) - 64, 8)
                page[at : at + 64] = bytes([dice.choice((0, 0xFF, 0x7F))]) * 64
            else:
                page[: 64 << 10] = dice.randbytes(64 << 10)
            (device,) = agent.user(spoiler).usage()["devices"]
            assert 0 <= device["memory_used_bytes"] <= total_bytes
            device.pop("memory_drift_bytes")  # below zero where a page says more than there is
            for figure in figures_in(device):
                assert math.isfinite(figure) and 0 <= figure < 2**63
            assert 0 <= device["gpu_time_fraction"] <= 1
            assert 0 <= device["waiting_fraction"] <= 1
        page[:] = bytes(len(page))

    (device,) = agent.user(other).usage()["devices"]
    assert (device["memory_used_bytes"], device["launches"]) == (5 << 20, 3)
    assert agent.user(other).events() == []
    assert "Traceback" not in agent.log
    assert not re.search(r" (nan|[+-]inf)$", agent.metrics().lower(), re.MULTILINE)


def test_a_released_claims_page_takes_no_room_from_others(agent: Any, attach: Ask) -> None:
    """Catches a bug where a page full of ones, and then a release, made the whole device look used."""
    spoiler = agent.claim("spoiler")
    attached = attach(agent, spoiler)

    def free_bytes() -> int:
        (device,) = [each for each in agent.hub.devices() if each["uuid"] == spoiler.claim["devices"][0]["uuid"]]
        return int(device["free_bytes"])

    before = free_bytes()
    with mmap.mmap(attached.usage_fd, 0) as page:
        page[:] = b"\xff" * len(page)
        agent.hub.release_claim(spoiler.claim["claim"])
        after = free_bytes()
        page[:] = bytes(len(page))

    assert after == before


def test_without_descriptors_the_agent_stays_up(own_agent: Any, attach: Ask, hostile: Ask) -> None:
    granted = own_agent.claim()
    attached = attach(own_agent, granted)
    used = len(list(Path(f"/proc/{own_agent.pid}/fd").iterdir()))
    resource.prlimit(own_agent.pid, resource.RLIMIT_NOFILE, (used + 10, used + 10))

    flock = [
        *hostile(own_agent, "attach.sock", "hold", 100),
        *hostile(own_agent, "user.sock", "hold", 100),
    ]
    finished(flock)
    beats: set[int] = set()
    deadline = time.monotonic() + 60
    while len(beats) < 5:
        assert time.monotonic() < deadline, "its heart beats on without descriptors"
        beats.add(attached.control()["heartbeat_ns"])
        time.sleep(0.02)
    for process in flock:
        process.kill()
        process.wait()

    deadline = time.monotonic() + 60
    while (answer := attach(own_agent, granted)) is None or answer.status != OK:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert own_agent.hub.health()["pid"] == own_agent.pid
    assert own_agent.log.count("no connection can be taken in") <= 2 * own_agent.minutes, (
        "one line a minute for each socket"
    )
    assert "Traceback" not in own_agent.log
