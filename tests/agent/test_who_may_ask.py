"""Who may ask what: hubs everything, tenants about their own slice, others nothing."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import NotAuthorizedError, UnknownClaimError

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def get(path: Any, url: str, token: str = "") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    try:
        connection.request("GET", url, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def as_nobody(agent: Any, token: str | None) -> str:
    """Return what a hub of another user gets: devices or the error's name."""
    tried = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import os, sys\n"
            "from jupyter_vgpu.client import HubClient\n"
            "from jupyter_vgpu.errors import VGPUError\n"
            # Everything is loaded before: that user may not read this interpreter's own files.
            "import encodings.ascii, encodings.idna, encodings.latin_1\n"
            f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            "try: print(len(HubClient(sys.argv[1], sys.argv[2] or None).devices()))\n"
            "except VGPUError as error: print(error.reason)\n",
            *(str(agent.folder), token or ""),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return tried.stdout.strip()


@pytest.fixture
def public_agent(agent_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    """An agent in a directory that other users can reach; the test run's own folder is closed to them."""
    with agent_with(base="/tmp") as agent:
        yield agent


@needs_root
def test_hub_sock_is_closed_to_other_users(public_agent: Any) -> None:
    assert as_nobody(public_agent, None) == "not-authorized"
    assert (public_agent.folder / "hub.sock").stat().st_mode & 0o777 == 0o600


@needs_root
def test_the_hubs_own_user_gets_in_with_the_token_and_not_without(
    agent_with: Callable[..., AbstractContextManager[Any]],
) -> None:
    with agent_with("--hub-user", "nobody", base="/tmp") as agent:
        assert as_nobody(agent, None) == "2"
        assert as_nobody(agent, "0" * 64) == "not-authorized"
        assert agent.hub.health()["devices"] == 2


def test_a_tenant_sees_its_own_slice(agent: Any) -> None:
    granted = agent.claim("alice", share="1/4", memory="10GiB")
    agent.claim("bob")

    mine = agent.user(granted).slice()

    assert (mine["claim"], mine["tenant"], mine["profile"]) == (granted.claim["claim"], "alice", "offer")
    (device,) = mine["devices"]
    assert (device["memory_limit_bytes"], device["share"], device["simulated"]) == (10 << 30, 0.25, True)
    assert mine["agent"]["version"] == agent.hub.health()["version"]
    assert agent.user(granted).usage()["claim"] == granted.claim["claim"]


def test_a_wrong_secret_opens_nothing(agent: Any) -> None:
    agent.claim()

    with pytest.raises(UnknownClaimError, match="no claim has this secret"):
        UserClient(agent.folder / "user.sock", "0" * 64).slice()


@pytest.mark.parametrize("secret", ["", "x", "é", "0" * 10_000])
def test_no_secret_at_all_is_refused(agent: Any, secret: str) -> None:
    status, answer = get(agent.folder / "user.sock", "/v1/usage", secret.encode().decode("latin-1"))

    assert (status, answer["error"]) in ((403, "not-authorized"), (404, "unknown-claim"))


def test_another_users_secret_opens_nothing(agent: Any) -> None:
    granted = agent.claim(uid=os.getuid() + 1)

    with pytest.raises(NotAuthorizedError, match=f"belongs to uid {os.getuid() + 1}"):
        agent.user(granted).usage()


def test_a_released_claims_secret_opens_nothing(agent: Any) -> None:
    granted = agent.claim()
    agent.hub.release_claim(granted.claim["claim"])

    with pytest.raises(UnknownClaimError, match="has been released"):
        agent.user(granted).slice()


@pytest.mark.parametrize("url", ["/v1/health", "/v1/devices", "/v1/claims", "/metrics", "/", "/v1/slice/../claims"])
def test_user_sock_serves_nothing_of_the_hubs(agent: Any, url: str) -> None:
    granted = agent.claim()

    status, answer = get(agent.folder / "user.sock", url, granted.secret)

    assert (status, answer["error"]) == (404, "not-found")


def test_a_path_that_is_not_part_of_the_api_is_said_to_be_so(agent: Any) -> None:
    status, answer = get(agent.folder / "hub.sock", "/v2/health")

    assert status == 404
    assert "/v2/health is not part of this API" in answer["message"]


@pytest.mark.parametrize(
    "noise", [b"\0" * 100_000, b"GET / HTTP/9\r\n\r\n", b"GET /v1/slice HTTP/1.1\r\nA: " + b"x" * 70_000]
)
def test_noise_on_user_sock_holds_up_nobody(agent: Any, noise: bytes) -> None:
    granted = agent.claim()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(agent.folder / "user.sock"))
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(noise)

        assert agent.user(granted).slice()["state"] == "bound"
    assert "Traceback" not in agent.log


def test_connections_that_ask_nothing_hold_up_nobody(agent: Any) -> None:
    granted = agent.claim()
    idle = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for connection in idle:
        connection.connect(str(agent.folder / "user.sock"))

    assert agent.user(granted).slice()["state"] == "bound"
    for connection in idle:
        connection.close()


@needs_root
def test_one_users_connections_are_bounded(public_agent: Any) -> None:
    """Another user than the agent's own opens as many as it likes; the agent keeps 64 and serves others."""
    granted = public_agent.claim()
    tried = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import os, select, socket, sys, time\n"
            f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            "connections = [socket.socket(socket.AF_UNIX) for _ in range(200)]\n"
            "for connection in connections: connection.connect(sys.argv[1])\n"
            "deadline = time.monotonic() + 50\n"
            "closed = []\n"
            "while len(closed) < 136 and time.monotonic() < deadline:\n"
            "    closed = select.select(connections, [], [], 0.05)[0]\n"
            "print(len(closed))\n",
            str(public_agent.folder / "user.sock"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )

    assert tried.stdout.strip() == "136"
    assert public_agent.user(granted).slice()["state"] == "bound"


def test_outside_a_slice_the_user_client_says_so() -> None:
    with pytest.raises(UnknownClaimError, match="runs in no slice"):
        UserClient.from_environment({})
