"""A node with two boards: who gets which, who is alone on one, and who needs none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from harness.hubs import Agent, Hub
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

PROFILES = {"1/4 GPU": {"share": "1/4"}, "whole GPU": {"backend": "whole"}, "no GPU": {"gpu": False}}
SETTINGS = {
    "isolated": {"groups": ["exam"], "users": ["quick-alone"]},
    "quotas": {"users": {"quick-poor": {"slices": 0}}},
}
WHICH_DEVICES = (
    "from cuda.bindings import driver as d; error = d.cuInit(0)[0]; print(int(error)); _, count = d.cuDeviceGetCount();"
    "print(*(d.cuDeviceGetUuid(n)[1].bytes.hex() for n in range(count or 0)))"
)


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[Any, Any]]:
    agent = Agent("2xa100-80")
    hub = Hub(agent, HUB_TEST_SETTINGS=json.dumps(SETTINGS), HUB_TEST_PROFILES=json.dumps(PROFILES))
    with agent.running(), hub.running():
        yield hub, agent


@pytest.fixture
def hub(lab: tuple[Any, Any]) -> Iterator[Any]:
    yield lab[0]
    lab[0].clear()


@pytest.fixture
def agent(lab: tuple[Any, Any]) -> Any:
    return lab[1]


def devices_of(agent: Any, tenant: str) -> list[str]:
    (claim,) = (claim for claim in agent.claims() if claim["tenant"] == tenant)
    return [device["uuid"] for device in claim["devices"]]


def program_of(hub: Any, user: str, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program as the user's server would, with some variables more."""
    environment = dict(entry.split("=", 1) for entry in hub.environment_of(user) if "=" in entry)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, timeout=240)


def join(hub: Any, group: str, *users: str) -> None:
    for user in users:
        hub.api.post(f"/users/{user}")
    hub.api.post(f"/groups/{group}")
    hub.api.post(f"/groups/{group}/users", json={"users": list(users)})


def test_two_users_get_two_gpus_and_each_sees_its_own_alone(hub: Any, agent: Any) -> None:
    """CASES 46: all users got the same GPU."""
    hub.spawn("quick-ann", "whole GPU")
    hub.spawn("quick-ben", "whole GPU")

    seen = [program_of(hub, user, WHICH_DEVICES).stdout.split() for user in ("quick-ann", "quick-ben")]

    theirs = [devices_of(agent, user) for user in ("quick-ann", "quick-ben")]
    assert theirs[0] != theirs[1]
    uuids = [uuid.removeprefix("GPU-").replace("-", "") for (uuid,) in theirs]
    assert seen == [["0", uuid] for uuid in uuids]
    assert hub.ask("quick-cleo", {"vgpu_profile": "whole GPU"}).status_code == 409


def test_an_isolated_group_and_an_isolated_user_share_with_nobody_else_and_the_page_knows(hub: Any, agent: Any) -> None:
    join(hub, "exam", "quick-one", "quick-two")
    hub.spawn("quick-one")
    hub.spawn("quick-two")
    hub.spawn("quick-other")

    assert devices_of(agent, "quick-one") == devices_of(agent, "quick-two")
    assert devices_of(agent, "quick-other") != devices_of(agent, "quick-one")
    assert hub.ask("quick-alone", {"vgpu_profile": "1/4 GPU"}).status_code == 409
    free = {}
    for user in ("quick-three", "quick-another", "quick-alone"):
        if user == "quick-three":
            join(hub, "exam", user)
        with hub.browser(user) as browser:
            free[user] = unescape(browser.get("/hub/spawn").text)
    assert "2 of 8 free now." in free["quick-three"]
    assert "3 of 8 free now." in free["quick-another"]
    assert "None of 8 free now: too much is taken." in free["quick-alone"]


def test_a_drained_gpu_is_given_to_nobody_and_the_page_knows(hub: Any, agent: Any) -> None:
    first, second = (device["uuid"] for device in agent.hub.devices())
    agent.hub.drain(first)
    try:
        hub.spawn("quick-ann")
        with hub.browser("quick-ben") as browser:
            assert "3 of 4 free now." in unescape(browser.get("/hub/spawn").text)

        assert devices_of(agent, "quick-ann") == [second]
    finally:
        agent.hub.drain(first, False)


def test_a_server_without_a_gpu_holds_no_slice_needs_no_quota_and_its_programs_are_told(hub: Any, agent: Any) -> None:
    hub.spawn("quick-poor", "no GPU")

    # A server finds the simulated boards by their variables only; a real driver is there for all.
    found_all_the_same = {
        "LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR),
        "JUPYTER_VGPU_SIM": str(agent.runtime_dir / "board.sim"),
    }
    ran = program_of(hub, "quick-poor", WHICH_DEVICES, **found_all_the_same)

    assert agent.claims() == []
    assert ran.stdout.split()[0] != "0"
    assert "no GPU for this process: it holds no slice" in ran.stderr
    assert not [entry for entry in hub.environment_of("quick-poor") if entry.startswith("JUPYTER_VGPU_S")]
    assert hub.ask("quick-poor", {"vgpu_profile": "1/4 GPU"}, server="two").status_code == 403


def test_a_server_that_comes_back_without_a_gpu_gives_its_slice_back(hub: Any, agent: Any) -> None:
    hub.spawn("quick-ann")
    hub.stop_server("quick-ann")
    hub.spawn("quick-ann", "no GPU")

    assert agent.claims() == []
