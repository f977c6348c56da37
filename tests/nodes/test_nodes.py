"""Two agents asked as one: where claims go, and what becomes of them while a node is silent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from harness.hubs import Agent
from harness.waiting import wait_until
from jupyter_vgpu.client import GrantedClaim, HubClient, Nodes, parse_endpoint
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import AgentUnreachableError, NoCapacityError, NotAuthorizedError, UnknownDeviceError
from jupyter_vgpu.model import ClaimRequest, Profile

PROFILES = {
    "1/4": {"share": "1/4"},
    "whole": {"share": 1},
    "two": {"share": 1, "devices": 2},
    "three": {"share": 1, "devices": 3},
    "sure": {"share": 1, "guarantee": "1/2"},
}
OFFERED = {profile.name: profile for profile in parse_profiles(PROFILES)}


def a_request(profile: str = "1/4", **more: Any) -> ClaimRequest:
    chosen: Profile = OFFERED[profile]
    return ClaimRequest("ada", "a hub", os.getuid(), chosen, **more)


@pytest.fixture(scope="module")
def near_of_the_module() -> Iterator[Agent]:
    with Agent("a100-80").running() as agent:
        yield agent


@pytest.fixture(scope="module")
def far_of_the_module(agents_with: Any) -> Iterator[Any]:
    with agents_with(boards="2xa100-40") as agent:
        yield agent


@pytest.fixture
def near(near_of_the_module: Any) -> Iterator[Any]:
    """An agent of one GPU, by its socket; without claims before and after."""
    yield near_of_the_module
    near_of_the_module.revive()
    _empty(near_of_the_module)


@pytest.fixture
def far(far_of_the_module: Any) -> Iterator[Any]:
    """An agent of two GPUs, by its port; without claims before and after."""
    yield far_of_the_module
    far_of_the_module.process.send_signal(signal.SIGCONT)
    _empty(far_of_the_module)


def _empty(agent: Any) -> None:
    client = HubClient(agent.runtime_dir, timeout_seconds=60)
    for claim in client.claims():
        client.release_claim(claim["claim"])


@pytest.fixture
def nodes(near: Any, far: Any) -> Nodes:
    return Nodes({"near": HubClient(near.runtime_dir, timeout_seconds=60), "far": far.client_at()})


def test_what_is_guaranteed_is_so_on_whichever_node(nodes: Nodes) -> None:
    granted = [nodes.create_claim(a_request("sure")) for _ in range(3)]

    claims, _ = nodes.claims()

    assert sorted(one.node for one in granted) == ["far", "far", "near"]
    assert [device["guarantee"] for claim in claims for device in claim["devices"]] == [0.5, 0.5, 0.5]


def test_devices_and_claims_say_of_which_node_they_are(nodes: Nodes) -> None:
    granted = nodes.create_claim(a_request())

    claims, silent = nodes.claims()

    assert sorted(device["node"] for device in nodes.devices()) == ["far", "far", "near"]
    assert [(claim["claim"], claim["node"]) for claim in claims] == [(granted.claim["claim"], granted.node)]
    assert nodes.node_of(granted.claim["claim"]) == granted.node
    assert silent == {}


def test_slices_go_together_on_the_fullest_device_of_all_nodes(nodes: Nodes, near: Any) -> None:
    near.make_claim("somebody", "another hub")

    assert {nodes.create_claim(a_request()).node for _ in range(3)} == {"near"}
    assert nodes.create_claim(a_request()).node == "far"


def test_slices_that_are_spread_go_on_the_emptiest_device_of_all_nodes(nodes: Nodes, near: Any) -> None:
    near.make_claim("somebody", "another hub")

    chosen = [nodes.create_claim(a_request(is_spread=True)) for _ in range(2)]

    assert [granted.node for granted in chosen] == ["far", "far"]
    assert chosen[0].claim["devices"][0]["uuid"] != chosen[1].claim["devices"][0]["uuid"]


def test_a_slice_of_several_devices_is_on_one_node(nodes: Nodes) -> None:
    granted = nodes.create_claim(a_request("two"))
    with pytest.raises(NoCapacityError, match="each of 3 devices of one node"):
        nodes.create_claim(a_request("three"))

    assert granted.node == "far"


def test_what_another_hub_took_meanwhile_is_looked_for_on_the_other_node(nodes: Nodes, near: Any, far: Any) -> None:
    near.make_claim("somebody", "another hub")
    seen = nodes.devices()
    for number in range(3):
        near.make_claim(f"rival {number}", "another hub")

    granted = nodes.create_claim(a_request(), seen)

    assert granted.node == "far"


def test_many_go_to_the_nodes_that_have_room_for_them_and_what_was_taken_meanwhile_is_found_elsewhere(
    nodes: Nodes, near: Any
) -> None:
    seen = nodes.devices()
    near.make_claim("somebody", "another hub")
    wanted = ["whole", "whole", "two", "three"]  # near's only device is not free any more; far has two

    first, second, third, fourth = nodes.create_claims([(a_request(one), seen) for one in wanted])

    assert [getattr(one, "node", one) for one in (first, second)] == ["far", "far"]
    assert isinstance(third, NoCapacityError)
    assert isinstance(fourth, NoCapacityError) and "each of 3 devices of one node" in str(fourth)
    assert sorted(claim["node"] for claim in nodes.claims()[0]) == ["far", "far", "near"]
    assert all(nodes.node_of(one.claim["claim"]) == "far" for one in (first, second) if isinstance(one, GrantedClaim))


def test_many_are_made_where_an_agent_answers(nodes: Nodes, near: Any) -> None:
    near.make_claim("somebody", "another hub")  # the fullest device, which would be the first choice, is near's
    seen = nodes.devices()
    near.stop()

    ended = nodes.create_claims([(a_request(), seen) for _ in range(4)])

    assert [getattr(one, "node", one) for one in ended] == ["far"] * 4
    assert "near" in nodes.silence()


def test_when_all_nodes_are_full_that_is_said_and_nothing_is_held(nodes: Nodes) -> None:
    held = [nodes.create_claim(a_request("whole")) for _ in range(3)]

    with pytest.raises(NoCapacityError, match="no part of any device is free"):
        nodes.create_claim(a_request())

    assert sorted(granted.node for granted in held) == ["far", "far", "near"]
    assert len(nodes.claims()[0]) == 3


def test_isolation_groups_hold_on_all_nodes(nodes: Nodes) -> None:
    first = nodes.create_claim(a_request(isolation="exam"))
    second = nodes.create_claim(a_request(isolation="exam"))
    other = nodes.create_claim(a_request())

    def of(granted: Any) -> str:
        return str(granted.claim["devices"][0]["uuid"])

    assert of(first) == of(second) != of(other)


def test_claims_go_to_the_nodes_that_answer_and_those_of_the_silent_one_stay(nodes: Nodes, near: Any) -> None:
    near.make_claim("somebody", "another hub")
    held = nodes.create_claim(a_request())
    seen = nodes.devices()
    near.stop()

    elsewhere = nodes.create_claim(a_request(), seen)
    claims, silent = nodes.claims()
    with pytest.raises(AgentUnreachableError):
        nodes.release_claim(held.claim["claim"])
    again = nodes.create_claim(a_request())
    near.start()
    wait_until(lambda: "near" in {device["node"] for device in nodes.devices()}, "the node is asked again")
    claims_after, silent_after = nodes.claims()

    assert held.node == "near"
    assert {elsewhere.node, again.node} == {"far"}
    assert {claim["claim"] for claim in claims} == {elsewhere.claim["claim"]}
    assert list(silent) == ["near"]
    assert str(silent["near"]).startswith("node near: ")
    assert held.claim["claim"] in {claim["claim"] for claim in claims_after}
    assert silent_after == {}
    released = nodes.release_claim(held.claim["claim"])
    assert released is not None
    assert nodes.release_claim(held.claim["claim"]) is None


def test_a_claim_of_which_nobody_knows_where_it_is_is_not_gone_while_a_node_is_silent(near: Any, far: Any) -> None:
    claim_id = near.make_claim("ada", "a hub")
    far_claim = far.make_claim("ada", "a hub")
    near.stop()
    anew = Nodes({"near": HubClient(near.runtime_dir), "far": far.client_at()})

    with pytest.raises(AgentUnreachableError, match="node near"):
        anew.release_claim(claim_id)

    assert anew.release_claim(far_claim) is not None


def test_a_node_that_hangs_holds_nobody_up_for_ever_and_is_left_out(near: Any, far: Any) -> None:
    patient = HubClient(near.runtime_dir, timeout_seconds=60)
    hasty = HubClient(parse_endpoint(far.at(), "agent"), timeout_seconds=1)
    nodes = Nodes({"near": patient, "far": hasty})
    far.process.send_signal(signal.SIGSTOP)

    devices = nodes.devices()
    granted = nodes.create_claim(a_request("whole"))

    with pytest.raises(NoCapacityError, match="on far, which did not answer"):
        nodes.create_claim(a_request(), devices)

    assert [device["node"] for device in devices] == ["near"]
    assert granted.node == "near"


def test_when_no_node_answers_each_question_says_so(near: Any) -> None:
    near.stop()
    nodes = Nodes({"near": HubClient(near.runtime_dir)})

    for ask in (nodes.devices, nodes.devices, nodes.claims, nodes.healths, lambda: nodes.create_claim(a_request())):
        with pytest.raises(AgentUnreachableError, match="near"):
            ask()


def test_a_node_with_another_token_is_told_of_and_the_others_go_on(near: Any, far: Any) -> None:
    said: list[str] = []

    class Log:
        def warning(self, text: str, *values: object) -> None:
            said.append(text % values)

    wrong = HubClient(parse_endpoint(far.at(), "agent"), "0" * 64, timeout_seconds=60)
    nodes = Nodes({"near": HubClient(near.runtime_dir, timeout_seconds=60), "far": wrong}, say=Log())

    devices = nodes.devices()
    _, silent = nodes.claims()

    assert {device["node"] for device in devices} == {"near"}
    assert isinstance(silent["far"], NotAuthorizedError)
    assert said == ["claims go elsewhere for now: node far: that is not the token of this agent: hubs send what its "
                    "admin gave them"]  # fmt: skip


def test_new_claims_go_only_where_servers_can_start_and_the_others_are_still_looked_at(near: Any, far: Any) -> None:
    nodes = Nodes({"near": HubClient(near.runtime_dir, timeout_seconds=60), "far": far.client_at()}, placing=["near"])
    far_claim = far.make_claim("ada", "a hub")
    nodes.create_claim(a_request("whole"))

    with pytest.raises(NoCapacityError):
        nodes.create_claim(a_request())

    assert {device["node"] for device in nodes.devices()} == {"near"}
    assert far_claim in {claim["claim"] for claim in nodes.claims()[0]}
    assert {device["node"] for device in nodes.all_devices()[0]} == {"near", "far"}


def test_a_device_is_drained_on_the_node_that_has_it(nodes: Nodes, far: Any) -> None:
    uuid = next(device["uuid"] for device in nodes.devices() if device["node"] == "far")
    try:
        device = nodes.drain(uuid)
    finally:
        HubClient(far.runtime_dir, timeout_seconds=60).drain(uuid, False)
    with pytest.raises(UnknownDeviceError):
        nodes.drain("GPU-of-nobody")

    assert (device["node"], device["drained"]) == ("far", True)


def test_usage_is_asked_of_the_node_that_has_the_claim(nodes: Nodes) -> None:
    granted = nodes.create_claim(a_request("two"))

    assert nodes.usage(granted.claim["claim"])["claim"] == granted.claim["claim"]
    assert set(nodes.healths()) == {"near", "far"}
