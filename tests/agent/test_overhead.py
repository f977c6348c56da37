"""What no call shows is read from NVML, charged and shown: contexts above all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

GIB = 1 << 30
CONTEXT = 450 << 20  # jupyter_vgpu/boards/a100-80.json
Start = Callable[..., Any]


def device_of(agent: Any, granted: Any) -> Any:
    return agent.user(granted).usage()["devices"][0]


def until(agent: Any, granted: Any, holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + 60
    while not holds(device := device_of(agent, granted)):
        assert time.monotonic() < deadline, device
        time.sleep(0.02)
    return device


def test_a_context_is_charged_and_shown(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    user = device_user(granted)
    assert user.asked(f"hold {GIB}") == "held"

    device = until(agent, granted, lambda device: device["memory_overhead_bytes"] > 0)

    assert device["memory_overhead_bytes"] == CONTEXT
    assert device["memory_used_bytes"] == GIB + CONTEXT
    (process,) = agent.user(granted).usage()["processes"]
    assert process["devices"][0]["memory_bytes"] == GIB
    assert process["devices"][0]["memory_overhead_bytes"] == CONTEXT
    assert int(user.asked("free")) == 9 * GIB - CONTEXT


def test_what_is_charged_is_not_there_to_be_allocated(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    user = device_user(granted)
    until(agent, granted, lambda device: device["memory_overhead_bytes"] == CONTEXT)

    too_much, what_fits = user.asked(f"hold {10 * GIB - CONTEXT + 1}"), user.asked(f"hold {10 * GIB - CONTEXT}")

    assert (too_much, what_fits) == ("refused", "held")


def test_each_process_has_its_own_and_a_dead_ones_is_free_at_once(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    first, second = device_user(granted), device_user(granted)
    until(agent, granted, lambda device: device["memory_overhead_bytes"] == 2 * CONTEXT)

    first.process.kill()
    first.process.wait()

    until(agent, granted, lambda device: device["memory_overhead_bytes"] == CONTEXT)
    assert int(second.asked("free")) == 10 * GIB - CONTEXT


def test_a_page_that_says_less_than_the_driver_gave_does_not_make_room(agent: Any, device_user: Start) -> None:
    """A tenant that zeroes its own page is charged what NVML sees."""
    granted = agent.claim(share="1/4", memory="10GiB")
    user = device_user(granted)
    assert user.asked(f"hold {6 * GIB}") == "held"
    until(agent, granted, lambda device: device["memory_overhead_bytes"] == CONTEXT)

    assert user.asked("spoil 0") == "spoilt"
    device = until(agent, granted, lambda device: device["memory_overhead_bytes"] > CONTEXT)

    assert device["memory_used_bytes"] == 6 * GIB + CONTEXT
    assert user.asked(f"hold {5 * GIB}") == "refused"


def test_allocating_and_freeing_without_a_pause_does_not_shake_it(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    user = device_user(granted)
    until(agent, granted, lambda device: device["memory_overhead_bytes"] == CONTEXT)

    seen = set()
    deadline = time.monotonic() + 3  # more than the agent takes to believe a figure
    while time.monotonic() < deadline:
        for line in (f"hold {GIB}", f"hold {3 * GIB}", "give"):
            assert user.asked(line) in ("held", "given")
        seen.add(device_of(agent, granted)["memory_overhead_bytes"])

    assert seen == {CONTEXT}


def test_memory_of_a_process_that_dropped_the_library_is_its_tenants(agent: Any, device_user: Start) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    user = device_user(granted)
    dropped = device_user(granted, without=("LD_PRELOAD",), ordinal=agent.ordinal(granted))
    assert dropped.asked(f"hold {7 * GIB}") == "held"

    until(agent, granted, lambda device: device["memory_used_bytes"] == 7 * GIB + 2 * CONTEXT)

    assert user.asked(f"hold {3 * GIB}") == "refused"
    dropped.close()
    until(agent, granted, lambda device: device["memory_used_bytes"] == CONTEXT)
    assert user.asked(f"hold {3 * GIB}") == "held"
