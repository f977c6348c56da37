"""What a tenant is told of its neighbours: how many work beside it and how much, never who."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]
GIB = 1 << 30


def pressure_on(agent: Any, granted: Any) -> dict[str, Any]:
    pressure: dict[str, Any] = agent.user(granted).usage()["devices"][0]["pressure"]
    return pressure


def wait_until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_neighbour_is_felt_while_it_works_and_named_nowhere(agent: Any, attach: Ask) -> None:
    mine, theirs = agent.claim("ada"), agent.claim("boris")
    attach(agent, mine)
    neighbour = attach(agent, theirs)
    assert pressure_on(agent, mine) == {"neighbours": 0, "gpu_time_fraction": 0.0}

    started = time.monotonic_ns()

    def work() -> dict[str, Any]:
        passed = time.monotonic_ns() - started
        neighbour.write_use(launches=1 + passed // 1_000_000, busy=passed // 4)
        return pressure_on(agent, mine)

    # Both are of the last second, in which a busy machine may not have let it work.
    wait_until(lambda: (felt := work())["neighbours"] == 1 and 0 < felt["gpu_time_fraction"] < 1)

    # Nobody is their own neighbour, and nothing but figures goes to the other.
    assert pressure_on(agent, theirs)["neighbours"] == 0
    said = json.dumps([agent.user(mine).usage(), agent.user(mine).slice()])
    assert "boris" not in said and theirs.claim["claim"] not in said
    # The neighbour rests.
    wait_until(lambda: pressure_on(agent, mine)["neighbours"] == 0)


def test_the_parts_of_a_slice_are_no_neighbours_of_each_other(agent: Any, attach: Ask) -> None:
    mine, other = agent.claim("ada"), agent.claim("boris")
    part = agent.user(mine).create_subslice("a notebook", GIB)
    worker = attach(agent, part)

    started = time.monotonic_ns()

    def work() -> dict[str, Any]:
        worker.write_use(launches=1 + (time.monotonic_ns() - started) // 1_000_000)
        return pressure_on(agent, other)

    wait_until(lambda: work()["neighbours"] == 1)

    assert pressure_on(agent, mine)["neighbours"] == 0
