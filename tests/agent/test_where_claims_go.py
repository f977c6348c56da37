"""Isolation groups, drained devices and spreading, as the agent obeys them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError, NoCapacityError, UnknownDeviceError
from jupyter_vgpu.model import ClaimRequest

(EIGHTH,) = parse_profiles({"1/8 GPU": {"share": "1/8", "priority": "high"}})


@pytest.fixture
def pair(agent_with: Callable[..., AbstractContextManager[Any]]) -> Any:
    with agent_with("--simulate", "2xa100-80") as agent:
        yield agent


def claim(agent: Any, tenant: str, isolation: str = "", is_spread: bool = False, hub: str = "lab") -> str:
    """Claim an eighth; return the device it is on."""
    request = ClaimRequest(tenant, hub, os.getuid(), EIGHTH, isolation=isolation, is_spread=is_spread)
    return agent.hub.create_claim(request).claim["devices"][0]["uuid"]


def test_an_isolation_group_shares_its_device_with_nobody_else_not_even_one_of_the_same_name(pair: Any) -> None:
    exam = claim(pair, "ada", "group exam")
    others = claim(pair, "bob")

    assert exam != others
    assert claim(pair, "cleo", "group exam") == exam
    assert claim(pair, "dan") == others
    with pytest.raises(NoCapacityError):
        claim(pair, "eve", "user eve")
    with pytest.raises(NoCapacityError):
        claim(pair, "fay", "group exam", hub="another")


def test_a_drained_device_keeps_what_it_has_and_takes_no_more_also_after_a_restart(pair: Any) -> None:
    first = claim(pair, "ada")

    drained = pair.hub.drain(first)
    second = claim(pair, "bob")
    pair.end()
    pair.start()
    third = claim(pair, "cleo")

    assert drained["drained"] is True
    assert len(drained["claims"]) == 1
    assert first not in (second, third)
    assert pair.hub.drain(first, False)["drained"] is False
    assert {claim(pair, f"{n}") for n in range(8)} == {first, second}


def test_spread_claims_go_where_most_is_free(pair: Any) -> None:
    assert claim(pair, "ada") == claim(pair, "bob")
    assert claim(pair, "cleo", is_spread=True) != claim(pair, "dan")


def test_a_claim_keeps_its_priority_over_a_restart(pair: Any) -> None:
    claim(pair, "ada")
    pair.end()
    pair.start()

    assert [one["priority"] for one in pair.hub.claims()] == ["high"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"isolation": "a\nb"}, "isolation"),
        ({"isolation": 5}, "isolation"),
        ({"spread": "yes"}, "spread"),
        ({"profile": {"name": "it", "share": 0.125, "priority": "urgent"}}, "profile.priority: 'urgent'"),
        ({"profile": {"name": "it", "share": 0.125, "devices": 0}}, "profile.devices: 0"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_understood_is_refused_and_claims_nothing(agent: Any, changes: Any, message: str) -> None:
    body = {"tenant": "ada", "hub": "lab", "uid": os.getuid(), "profile": {"name": "it", "share": 0.125}}

    with pytest.raises(BadValueError, match=message):
        agent.hub._ask("POST", "/v1/claims", {**body, **changes})

    assert agent.hub.claims() == []


def test_only_a_device_that_is_there_can_be_drained(agent: Any) -> None:
    with pytest.raises(UnknownDeviceError, match="no device 'GPU-none'"):
        agent.hub.drain("GPU-none")
    with pytest.raises(BadValueError, match="drained"):
        agent.hub._ask("PUT", f"/v1/devices/{agent.hub.devices()[0]['uuid']}", {"drained": 1})


def test_where_the_driver_does_not_say_how_far_apart_devices_are_claims_of_several_are_made_all_the_same(
    agent_with: Callable[..., AbstractContextManager[Any]],
) -> None:
    """The simulated driver says nothing of that."""
    (pair_of_halves,) = parse_profiles({"pair": {"share": "1/2", "devices": 2}})
    with agent_with("--simulate", "4xt4") as agent:
        granted = agent.hub.create_claim(ClaimRequest("ada", "lab", os.getuid(), pair_of_halves))

        assert len({device["uuid"] for device in granted.claim["devices"]}) == 2


@pytest.mark.parametrize("how", ["option", "variable"])
def test_an_agent_serves_only_the_devices_that_it_is_told_to(
    how: str, agent_with: Callable[..., AbstractContextManager[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("JUPYTER_VGPU_DEVICES", "1")
    with agent_with("--simulate", "3xa100-80", *(["--devices", "1"] if how == "option" else [])) as agent:
        assert [device["index"] for device in agent.hub.devices()] == [1]
        assert len({claim(agent, f"{n}") for n in range(8)}) == 1
        with pytest.raises(NoCapacityError):
            claim(agent, "one too many")
