"""The death of a process is seen at once, however it comes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

GIB = 1 << 30
Start = Callable[..., Any]


def used(agent: Any, granted: Any) -> int:
    return int(agent.hub.usage(granted.claim["claim"])["devices"][0]["memory_used_bytes"])


def until(holds: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 60


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_memory_of_a_dead_process_is_free_again(agent: Any, holder: Start, number: int) -> None:
    """CASES 25."""
    granted = agent.claim()
    process, _ = holder(agent, granted, 5 * GIB)
    held = used(agent, granted)

    process.send_signal(number)

    until(lambda: used(agent, granted) == 0)
    assert held == 5 * GIB
    assert agent.hub.usage(granted.claim["claim"])["processes"] == []


def test_a_killed_ones_memory_is_free_at_once(agent: Any, holder: Start) -> None:
    """Nothing polls for it: a question that the agent takes in after the death finds the memory free.

    The first may come in the same round as the death.
    """
    granted = agent.claim()
    for _ in range(5):
        process, _ = holder(agent, granted, GIB)
        assert used(agent, granted) == GIB
        process.kill()
        process.wait()
        used(agent, granted)

        assert used(agent, granted) == 0


def test_a_child_that_keeps_the_connection_and_the_pages_does_not_keep_the_slot(agent: Any, holder: Start) -> None:
    granted = agent.claim()
    process, child = holder(agent, granted, 5 * GIB, "fork")
    assert used(agent, granted) == 5 * GIB

    process.kill()
    process.wait()

    until(lambda: used(agent, granted) == 0)
    os.kill(child, 0)  # it lives, and holds the parent's descriptors


def test_after_exec_a_process_has_one_slot_and_what_it_holds_now(agent: Any, holder: Start) -> None:
    granted = agent.claim()

    process, pid = holder(agent, granted, 4 * GIB, "exec")

    usage = agent.hub.usage(granted.claim["claim"])
    assert pid == process.pid
    assert [each["pid"] for each in usage["processes"]] == [pid]
    assert usage["devices"][0]["memory_used_bytes"] == 2 * GIB


def test_launches_stay_counted_after_death(agent: Any, holder: Start) -> None:
    granted = agent.claim()
    process, _ = holder(agent, granted, GIB)

    process.kill()
    until(lambda: used(agent, granted) == 0)

    assert agent.hub.usage(granted.claim["claim"])["devices"][0]["launches"] == 7


def test_two_processes_of_one_claim_are_summed(agent: Any, holder: Start) -> None:
    granted = agent.claim()
    holder(agent, granted, 2 * GIB)
    holder(agent, granted, 3 * GIB)

    usage = agent.hub.usage(granted.claim["claim"])

    assert usage["devices"][0]["memory_used_bytes"] == 5 * GIB
    assert sorted(each["devices"][0]["memory_bytes"] for each in usage["processes"]) == [2 * GIB, 3 * GIB]


def test_memory_of_a_released_claims_process_is_promised_to_nobody_until_it_ends(agent: Any, holder: Start) -> None:
    granted = agent.claim()
    process, _ = holder(agent, granted, 5 * GIB)
    (uuid,) = [device["uuid"] for device in granted.claim["devices"]]

    def free() -> int:
        (device,) = [device for device in agent.hub.devices() if device["uuid"] == uuid]
        return int(device["total_bytes"] - device["free_bytes"])

    agent.hub.release_claim(granted.claim["claim"])
    lingering = free()
    process.kill()

    assert lingering == 5 * GIB
    until(lambda: free() == 0)
