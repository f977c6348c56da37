"""A hub with two nodes: an agent by its socket, another by its port with TLS. All real, and all on this host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.hubs import Agent, ServedHub
from harness.waiting import wait_until


@pytest.fixture(scope="module")
def near() -> Iterator[Agent]:
    """The agent of the hub's own node, with one GPU."""
    with Agent("a100-80").running() as agent:
        yield agent


@pytest.fixture(scope="module")
def far(agents_with: Any, authority: Any) -> Iterator[Any]:
    """The agent of another node, with two GPUs."""
    certificate, key = authority.sign("127.0.0.1")
    with agents_with("--certificate", str(certificate), "--key", str(key), boards="2xa100-40") as agent:
        yield agent


@pytest.fixture(scope="module")
def hub_of_the_module(near: Any, far: Any, authority: Any) -> Iterator[ServedHub]:
    agents = {"near": f"unix://{near.runtime_dir}", "far": far.at(ca_file=str(authority.file))}
    hub = ServedHub(
        near,
        HUB_TEST_AGENT="",
        HUB_TEST_PLACES="1",
        HUB_TEST_SETTINGS=json.dumps({"agents": agents, "queue_timeout_seconds": 3600.0}),
    )
    with hub.running():
        yield hub


@pytest.fixture
def hub(hub_of_the_module: Any, near: Any, far: Any) -> Iterator[Any]:
    """The hub without a server; checked to be so again after the test, on both nodes."""
    yield hub_of_the_module
    near.revive()
    hub_of_the_module.stop_all()
    wait_until(lambda: not near.claims() and not far.claims(), "all claims are released")


def where(hub: Any, user: str) -> str:
    """Return the node of a user's claim, as the ledger has it."""
    (entry,) = hub.ledger().open_entries(user)
    return str(entry.node)


def spawn_on_both_gpus(hub: Any) -> None:
    """Start a server for quick-ada on both GPUs of the far node, once that has answered in time."""
    options = {"vgpu_profile": "two GPUs"}
    wait_until(lambda: hub.ask("quick-ada", options).status_code in (201, 202), "the far node is there")
    hub.wait_ready("quick-ada")


def test_servers_are_started_on_the_node_that_has_their_slice_with_what_its_agent_gave(
    hub: Any, near: Any, far: Any
) -> None:
    users = ["quick-ada", "quick-bob", "quick-eve"]
    for user in users:
        hub.spawn(user, "whole GPU")

    nodes = {user: where(hub, user) for user in users}
    environments = {user: hub.environment_of(user) for user in users}

    assert sorted(nodes.values()) == ["far", "far", "near"]
    assert near.tenants() == [user for user in users if nodes[user] == "near"]
    assert far.tenants() == [user for user in users if nodes[user] == "far"]
    for user in users:
        agent = {"near": near, "far": far}[nodes[user]]
        assert f"PLACED_ON={nodes[user]}" in environments[user]
        assert f"JUPYTER_VGPU_SOCKET={agent.runtime_dir / 'attach.sock'}" in environments[user]


def test_who_waits_gets_what_comes_free_on_either_node(hub: Any) -> None:
    users = ["quick-ada", "quick-bob", "quick-eve"]
    for user in users:
        hub.spawn(user, "whole GPU")
    nodes = {user: where(hub, user) for user in users}
    with ThreadPoolExecutor(1) as threads:
        for node in ("near", "far"):
            newcomer = f"quick-{node}"
            asked = threads.submit(hub.ask, newcomer, {"vgpu_profile": "whole GPU"})
            wait_until(lambda who=newcomer: [p for p in hub.ledger().places.all() if p.user == who], "it waits")

            hub.stop_server(next(user for user in users if nodes[user] == node))
            hub.wait_ready(newcomer)

            assert where(hub, newcomer) == node
            assert asked.result().status_code in (201, 202)


def test_a_slice_of_two_gpus_is_on_the_node_that_has_two(hub: Any, far: Any) -> None:
    spawn_on_both_gpus(hub)

    assert where(hub, "quick-ada") == "far"
    assert len({device["uuid"] for device in far.claims()[0]["devices"]}) == 2


def test_the_spawn_page_counts_what_is_free_on_all_nodes(hub: Any) -> None:
    hub.spawn("quick-ada", "whole GPU")

    with hub.browser("quick-bob") as browser:
        wait_until(lambda: "2 of 3" in browser.get("/hub/spawn").text, "two of three whole GPUs are free")


def test_a_silent_node_keeps_its_claims_gets_no_new_ones_and_is_taken_up_again(hub: Any, near: Any, far: Any) -> None:
    users = ["quick-ada", "quick-bob", "quick-eve"]
    for user in users:
        hub.spawn(user, "whole GPU")
    stays = next(user for user in users if where(hub, user) == "near")
    goes, *_ = (user for user in users if user != stays)
    claim = hub.claim_of(stays)
    near.stop()
    hub.stop_server(goes)

    # That the hub compares goes on is seen by what it gives back on the other node meanwhile.
    far.make_claim("a ghost", hub.ledger().hub_name)
    wait_until(lambda: "a ghost" not in far.tenants(), "the other node's claims are compared")
    hub.spawn("quick-new", "1/4 GPU")
    with hub.as_user("quick-root") as client:
        shown = wait_until(lambda: _seen(client, {"far"}), "the service sees the node that answers")

    assert where(hub, "quick-new") == "far"
    assert hub.claim_of(stays) == claim
    assert hub.is_ready(stays)
    (held,) = (one for one in shown["claims"] if one["claim"] == claim)
    assert (held["user"], held["node"], held["enforced_by"]) == (stays, "near", "")
    assert any("node near" in trouble for trouble in shown["troubles"])

    hub.stop_server(stays)
    assert hub.claim_of(stays) == claim  # nobody knows yet that it is given back
    near.start()
    wait_until(lambda: not near.claims(), "the slice of the server that was stopped meanwhile is given back")
    wait_until(lambda: not hub.ledger().open_entries(stays), "the ledger knows")
    hub.stop_server("quick-new")
    for user in ("quick-back", "quick-again"):
        hub.spawn(user, "whole GPU")  # who needs the node that was silent waits until it is asked again


def _seen(client: Any, nodes: set[str]) -> Any:
    """Return what the service shows, if that is the devices of `nodes`; otherwise nothing."""
    shown = client.get("/api/claims").json()
    return shown if {device["node"] for device in shown["devices"]} == nodes else None


def test_the_service_shows_of_which_node_a_device_is_and_drains_it_there(hub: Any, near: Any, far: Any) -> None:
    spawn_on_both_gpus(hub)
    with hub.as_user("quick-root") as client:
        shown = wait_until(lambda: _seen(client, {"near", "far"}), "the service sees both nodes")
        wait_until(lambda: all(f"{node}, 0: " in client.get("/").text for node in ("near", "far")), "so does its page")
        uuid = next(device["uuid"] for device in shown["devices"] if device["node"] == "far")
        wait_until(lambda: client.put(f"/api/devices/{uuid}", json={"drained": True}).status_code == 200, "drained")
        seen = {device["uuid"]: device["drained"] for device in far.hub.devices()}
        wait_until(lambda: client.put(f"/api/devices/{uuid}", json={"drained": False}).status_code == 200, "in use")

    assert sorted(device["node"] for device in shown["devices"]) == ["far", "far", "near"]
    (held,) = shown["claims"]
    assert held["node"] == "far"
    assert seen[uuid]
    assert not any(device["drained"] for device in [*near.hub.devices(), *far.hub.devices()])


def test_a_slice_on_another_node_is_revoked_there(hub: Any, far: Any) -> None:
    spawn_on_both_gpus(hub)
    with hub.as_user("quick-root") as client:
        answer = client.delete(f"/api/claims/{hub.claim_of('quick-ada')}")

    assert answer.status_code == 200
    wait_until(lambda: not far.claims(), "the agent has it back")
