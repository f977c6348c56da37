"""Claims over hub.sock: what is granted, what is refused, and what a refusal says."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError, NoCapacityError, UnknownClaimError
from jupyter_vgpu.model import ClaimRequest
from jupyter_vgpu.native import INTERCEPT_LIBRARY, SIMULATED_DRIVER_DIR

GOOD = {
    "tenant": "alice",
    "hub": "hub",
    "uid": 1000,
    "profile": {"name": "1/4 GPU", "share": 0.25, "memory_fraction": 0.25},
}


BATCH = "/v1/claims/batch"


def sized(part: float, number: int) -> dict[str, Any]:
    """Return a claim of a part of a device."""
    profile = {"name": "some", "share": part, "memory_fraction": part}
    return {**GOOD, "tenant": f"user-{number}", "profile": profile}


def post(agent: Any, body: Any, path: str = "/v1/claims") -> tuple[int, Any]:
    """Return status and body of a claim, or at another path of several, asked for with `body` as it is."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(agent.folder / "hub.sock"))
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_claim_says_what_was_granted(agent: Any) -> None:
    granted = agent.claim(share="1/4", memory="10GiB", ceiling="1/2")

    (device,) = granted.claim["devices"]
    assert (device["memory_bytes"], device["share"], device["ceiling"]) == (10 << 30, 0.25, 0.5)
    assert granted.claim["state"] == "bound"
    assert granted.claim["backend"] == "intercept"
    assert agent.hub.get_claim(granted.claim["claim"]) == granted.claim
    assert agent.hub.claims() == [granted.claim]


def test_what_is_guaranteed_is_said_where_something_is(agent: Any) -> None:
    granted = agent.claim(share="1/4", guarantee="1/8")

    assert [device["guarantee"] for device in granted.claim["devices"]] == [0.125]
    assert [device["guarantee"] for device in agent.user(granted).slice()["devices"]] == [0.125]
    assert "guarantee" not in agent.claim(share="1/4").claim["devices"][0]


def test_the_edits_lead_to_the_agent_and_carry_no_limit(agent: Any) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")

    edits = granted.edits
    assert edits.env == {
        "JUPYTER_VGPU_SOCKET": str(agent.folder / "attach.sock"),
        "JUPYTER_VGPU_API": str(agent.folder / "user.sock"),
        "JUPYTER_VGPU_SECRET": granted.secret,
        "JUPYTER_VGPU_SIM": str(agent.folder / "board.sim"),
    }
    assert edits.preload == [str(INTERCEPT_LIBRARY)]
    assert edits.library_path == [str(SIMULATED_DRIVER_DIR)]
    assert len(bytes.fromhex(granted.secret)) == 32


def test_the_secret_is_given_once_and_kept_nowhere(agent: Any) -> None:
    granted = agent.claim()

    assert granted.secret not in json.dumps(agent.hub.claims())
    assert granted.secret not in (agent.folder / "state.json").read_text()
    assert granted.secret not in agent.log


def test_many_are_made_in_order_and_those_that_do_not_fit_are_told_why(agent: Any) -> None:
    sizes = [0.5, 1, 0.5, 1, 0.5]  # of two devices: the second half fits beside the first, and no second whole

    status, answer = post(agent, {"claims": [sized(size, number) for number, size in enumerate(sizes)]}, BATCH)

    assert status == 201
    assert [one.get("error") for one in answer["granted"]] == [None, None, None, "no-capacity", "no-capacity"]
    assert "no part of any device is free" in answer["granted"][4]["message"]
    held = [one["claim"] for one in answer["granted"] if "claim" in one]
    assert [claim["tenant"] for claim in held] == ["user-0", "user-1", "user-2"]
    assert agent.hub.claims() == held
    on_disk = (agent.folder / "state.json").read_text()
    assert all(claim["claim"] in on_disk for claim in held)
    assert len({one["secret"] for one in answer["granted"] if "claim" in one}) == 3


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        pytest.param([GOOD, {**GOOD, "uid": -1}], "claims.1.uid", id="one that is not allowed is enough"),
        pytest.param(
            [GOOD, {**GOOD, "profile": {"name": "x", "shrae": 1}}], "only the keys name, share", id="a key that is none"
        ),
        pytest.param(
            [GOOD, {**GOOD, "while_peer_lives": True}], "asked for by itself", id="one that is to die with us"
        ),
        pytest.param([], "claims", id="none"),
        pytest.param([GOOD] * 65, "claims", id="more than 64"),
    ],
)
def test_many_of_which_one_is_not_allowed_are_none(agent: Any, bodies: Any, said: str) -> None:
    status, answer = post(agent, {"claims": bodies}, BATCH)

    assert (status, answer["error"]) == (400, "bad-value")
    assert said in answer["message"]
    assert agent.hub.claims() == []


def test_a_client_that_asks_for_many_hears_of_each_what_came_of_it(agent: Any) -> None:
    (quarter,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
    wanted = [
        *[quarter] * 20,
        replace(quarter, backend="no such"),
        quarter,
    ]  # more than one question, and two devices full after eight

    ended = agent.hub.create_claims([ClaimRequest(f"user-{n}", "hub", 1000, one) for n, one in enumerate(wanted)])

    granted = [one.claim for one in ended if isinstance(one, GrantedClaim)]
    assert [claim["tenant"] for claim in granted] == [f"user-{number}" for number in range(8)]
    assert agent.hub.claims() == granted
    assert [getattr(one, "reason", "") for one in ended] == [""] * 8 + ["no-capacity"] * 12 + [
        "bad-value",
        "no-capacity",
    ]


def test_what_is_free_shrinks_with_a_claim_and_comes_back(agent: Any) -> None:
    before = agent.hub.devices()

    granted = agent.claim(share="1/4")
    (uuid,) = [device["uuid"] for device in granted.claim["devices"]]
    during = {device["uuid"]: device for device in agent.hub.devices()}[uuid]
    agent.hub.release_claim(granted.claim["claim"])

    assert during["free_share"] == 0.75
    assert during["free_bytes"] == during["total_bytes"] - granted.claim["devices"][0]["memory_bytes"]
    assert during["claims"] == [granted.claim["claim"]]
    assert agent.hub.devices() == before


def test_slices_are_packed_so_that_a_whole_device_stays_free(agent: Any) -> None:
    quarters = [agent.claim(share="1/4") for _ in range(4)]
    whole = agent.claim(backend="whole")

    assert len({quarter.claim["devices"][0]["uuid"] for quarter in quarters}) == 1
    assert whole.claim["devices"][0]["uuid"] != quarters[0].claim["devices"][0]["uuid"]
    assert whole.claim["devices"][0]["share"] == 1


def test_eight_quarters_fill_two_devices_and_the_ninth_waits_for_one_to_go(agent: Any) -> None:
    quarters = [agent.claim(f"user{number}") for number in range(8)]

    with pytest.raises(NoCapacityError, match="no part of any device is free"):
        agent.claim("user8")
    agent.hub.release_claim(quarters[3].claim["claim"])

    assert agent.claim("user8").claim["state"] == "bound"


def test_claims_at_the_same_moment_never_exceed_a_device(agent: Any) -> None:
    """CASES 6, one floor up: sixteen ask at once, eight fit."""
    outcomes: list[str] = []
    barrier = threading.Barrier(16)

    def ask(number: int) -> None:
        barrier.wait()
        try:
            agent.claim(f"user{number}")
            outcomes.append("bound")
        except NoCapacityError:
            outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["bound"] * 8 + ["refused"] * 8


def test_a_refusal_names_the_largest_slice_that_would_fit(agent: Any) -> None:
    for _ in range(2):
        agent.claim(memory="60GiB", share="3/4")

    with pytest.raises(NoCapacityError, match=r"'offer' does not fit .* the largest free slice is 19\.2 GiB with 1/4"):
        agent.claim(memory="30GiB", share="1/4")


def test_memory_alone_gives_a_share_of_the_same_part(agent: Any) -> None:
    (device,) = agent.claim(memory="8GiB").claim["devices"]

    total = agent.hub.devices()[0]["total_bytes"]
    assert device["share"] == (8 << 30) * 1_000_000 // total / 1_000_000


def test_several_devices_are_granted_together(agent: Any) -> None:
    granted = agent.claim(share="1/2", devices=2)

    assert len({device["uuid"] for device in granted.claim["devices"]}) == 2


def test_releasing_twice_is_releasing_once(agent: Any) -> None:
    granted = agent.claim()

    released = agent.hub.release_claim(granted.claim["claim"])

    assert released is not None
    assert released["state"] == "released"
    assert agent.hub.release_claim(granted.claim["claim"]) is None
    assert agent.hub.release_claim("never-was") is None
    with pytest.raises(UnknownClaimError, match=granted.claim["claim"]):
        agent.hub.get_claim(granted.claim["claim"])


@pytest.mark.parametrize("claim_id", ["../health", "x" * 200, "a b", "%00", "é"])
def test_an_id_that_cannot_be_is_an_unknown_one_or_not_found(agent: Any, claim_id: str) -> None:
    with pytest.raises(Exception) as refusal:
        agent.hub.get_claim(claim_id)

    assert "internal" not in str(refusal.value)
    assert agent.hub.health()["claims"] == 0


@pytest.mark.parametrize(
    ("change", "key"),
    [
        pytest.param({"tenant": 5}, "tenant", id="a tenant that is no text"),
        pytest.param({"tenant": ""}, "tenant", id="no tenant"),
        pytest.param({"tenant": "a\nb"}, "tenant", id="a tenant of two lines"),
        pytest.param({"uid": -1}, "uid", id="uid -1"),
        pytest.param({"uid": 2**32 - 1}, "uid", id="uid that means nobody at all"),
        pytest.param({"uid": "0"}, "uid", id="uid as text"),
        pytest.param({"uid": True}, "uid", id="uid yes"),
        pytest.param({"uid": 1.5}, "uid", id="uid 1.5"),
        pytest.param({"more": 1}, "more", id="a key that is not known"),
        pytest.param({"profile": None}, "profile", id="no profile"),
        pytest.param({"profile": {}}, "profile.name", id="a profile without a name"),
        pytest.param({"profile": {"name": "p"}}, "profile", id="a profile of nothing"),
        pytest.param({"profile": {"name": "p", "share": 1.5}}, "profile.share", id="share above 1"),
        pytest.param({"profile": {"name": "p", "share": -0.25}}, "profile.share", id="share below 0"),
        pytest.param({"profile": {"name": "p", "share": "0,5"}}, "profile.share", id="share 0,5"),
        pytest.param({"profile": {"name": "p", "share": [1]}}, "profile.share", id="share as a list"),
        pytest.param({"profile": {"name": "p", "memory_bytes": -1}}, "profile.memory_bytes", id="-1 bytes"),
        pytest.param({"profile": {"name": "p", "memory_bytes": "8GiB"}}, "profile.memory_bytes", id="bytes as text"),
        pytest.param({"profile": {"name": "p", "memory_bytes": 8}}, "profile.memory", id="8 bytes"),
        pytest.param({"profile": {"name": "p", "memory_fraction": 2}}, "profile.memory", id="twice the memory"),
        pytest.param(
            {"profile": {"name": "p", "memory_fraction": 1, "memory_bytes": 1 << 30}},
            "profile.memory",
            id="both memories",
        ),
        pytest.param({"profile": {"name": "p", "share": 0.25, "devices": 17}}, "profile.devices", id="17 devices"),
        pytest.param({"profile": {"name": "p", "share": 0.25, "backend": "none"}}, "profile.backend", id="no backend"),
        pytest.param({"profile": {"name": "p", "share": 0.5, "ceiling": 0.25}}, "profile.ceiling", id="low ceiling"),
        pytest.param({"profile": {"name": "p", "share": 0.25, "guarantee": 0.5}}, "profile.guarantee", id="guarantee"),
        pytest.param({"profile": {"name": "p", "share": 0.5, "guarantee": 0}}, "profile.guarantee", id="guarantee 0"),
        pytest.param({"profile": {"name": "p", "share": 0.5, "limit": 0}}, "profile.limit", id="a key in the profile"),
        pytest.param({"while_peer_lives": "yes"}, "while_peer_lives", id="yes as text"),
    ],
)
def test_a_bad_request_is_refused_by_key_and_changes_nothing(agent: Any, change: dict[str, Any], key: str) -> None:
    status, answer = post(agent, {**GOOD, **change})

    assert status == 400
    assert answer["error"] == "bad-value"
    assert answer["message"].startswith(key)
    assert ("nothing was given" if change == {"profile": {}} else "is not allowed") in answer["message"]
    assert agent.hub.claims() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"tenant": NaN}', b"[" * 5000])
def test_a_body_that_is_no_claim_is_refused(agent: Any, body: bytes) -> None:
    status, answer = post(agent, body)

    assert (status, answer["error"]) == (400, "bad-value")
    assert agent.hub.claims() == []


def test_a_body_without_end_is_not_read(agent: Any) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(agent.folder / "hub.sock"))
        connection.sendall(b"POST /v1/claims HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        answer = connection.recv(100)

    assert answer == b"" or b" 400 " in answer
    assert agent.hub.claims() == []


def test_a_claim_with_a_holder_goes_with_it(agent: Any) -> None:
    asking = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys\n"
            "from jupyter_vgpu.client import HubClient\n"
            "from jupyter_vgpu.config import parse_profiles\n"
            "from jupyter_vgpu.model import ClaimRequest\n"
            "profile = parse_profiles({'p': {'share': '1/4'}})[0]\n"
            "hub = HubClient(sys.argv[1])\n"
            "print(hub.create_claim(ClaimRequest('a', 'h', 0, profile), True).claim['claim'], hub.claims() != [])",
            str(agent.folder),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    claim_id, was_there = asking.stdout.split()
    assert was_there == "True"
    deadline = time.monotonic() + 60
    while agent.hub.claims() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(UnknownClaimError):
        agent.hub.get_claim(claim_id)


def test_the_agent_tells_what_it_is(agent: Any) -> None:
    health = agent.hub.health()

    assert health["pid"] == agent.pid
    assert health["simulated"] is True
    assert health["devices"] == 2
    assert health["isolated"] is (os.geteuid() == 0)
    assert bool(health["note"]) is not health["isolated"]


def test_devices_are_told_apart_from_real_ones(agent: Any) -> None:
    first, second = agent.hub.devices()

    assert first["simulated"] is second["simulated"] is True
    assert "Simulated" in first["name"]
    assert first["uuid"] != second["uuid"]
    assert first["sm_count"] == 108


def test_a_bad_profile_never_leaves_the_client(agent: Any) -> None:
    with pytest.raises(BadValueError):
        agent.claim(share="5/4")

    assert agent.hub.claims() == []
