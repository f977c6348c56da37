"""A tenant whose page says less GPU time than it had is found; nobody else is. The meter is the real library's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

Start = Callable[..., Any]
SPIN_SECONDS = 90  # it is ended as soon as it is flagged


def meter_events(agent: Any) -> list[Any]:
    return [event for event in agent.hub.events() if event["kind"] == "meter"]


def flagged(agent: Any, granted: Any) -> Any:
    """Return the first event about a claim's meter; wait for it as long as its process lies."""
    deadline = time.monotonic() + SPIN_SECONDS
    while True:
        for event in meter_events(agent):
            if event["claim"] == granted.claim["claim"]:
                return event
        assert time.monotonic() < deadline, agent.hub.events()
        time.sleep(0.05)


@pytest.mark.parametrize("said", ["0", pytest.param("0.5", marks=pytest.mark.slow)], ids=["nothing", "half"])
def test_a_page_that_says_too_little_is_flagged(own_agent: Any, device_user: Start, said: str) -> None:
    granted = own_agent.claim()
    liar = device_user(granted)

    liar.tell(f"spin 500 {SPIN_SECONDS} 0.9 {said}")

    assert "this slice's says" in flagged(own_agent, granted)["message"]


@pytest.mark.parametrize("said", [pytest.param("0", marks=pytest.mark.slow), "0.5"], ids=["nothing", "half"])
def test_it_is_the_liar_who_is_flagged_and_not_its_neighbour(own_agent: Any, device_user: Start, said: str) -> None:
    agent = own_agent
    mine, theirs = agent.claim("liar"), agent.claim("neighbour")
    liar, neighbour = device_user(mine), device_user(theirs)

    neighbour.tell(f"spin 500 {SPIN_SECONDS}")
    liar.tell(f"spin 500 {SPIN_SECONDS} 1 {said}")

    assert flagged(agent, mine)
    assert {event["claim"] for event in meter_events(agent)} == {mine.claim["claim"]}


def test_the_honest_are_not_flagged(own_agent: Any, device_user: Start) -> None:
    """Short and long launches, with pauses and without, alone and beside each other, from their first launch on."""
    agent = own_agent
    granted = [agent.claim(name) for name in ("one", "other", "third")]
    users = [device_user(each) for each in granted]

    for user, work in zip(users, ("20 2 0.3", "500 2", "20000 2 0.9"), strict=True):
        user.tell(f"spin {work}")
    assert [user.answer() for user in users] == ["spun"] * 3
    # One goes on alone.
    assert users[0].asked("spin 300000 2") == "spun"

    assert [event["message"] for event in meter_events(agent)] == []
