"""The attach socket: who gets pages, who does not, and that nobody holds up anybody."""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.pages import LAYOUT

OK, REFUSED, VERSION = 0, 1, 2
WRONG = "0" * 64
Ask = Callable[..., Any]


def request_of(secret: str, layout: int = LAYOUT, magic: int = 0x4A564750) -> bytes:
    return magic.to_bytes(4, sys.byteorder) + layout.to_bytes(4, sys.byteorder) + secret.encode()


def connected(agent: Any) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(60)
    connection.connect(str(agent.attach_socket))
    return connection


def descriptors(agent: Any) -> int:
    return len(list(Path(f"/proc/{agent.pid}/fd").iterdir()))


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_the_right_secret_gets_the_claims_pages(agent: Any, attach: Ask) -> None:
    granted = agent.claim(share="1/4", memory="10GiB", ceiling="1/2")

    attached = attach(agent, granted)

    control = attached.control()
    (device,) = granted.claim["devices"]
    assert attached.status == OK
    assert control["uuid"].hex() == device["uuid"].removeprefix("GPU-").replace("-", "")
    assert (control["memory_limit_bytes"], control["share_ppm"], control["ceiling_ppm"]) == (10 << 30, 250_000, 500_000)
    assert (control["state"], control["device_count"], control["slot_count"]) == (1, 1, attached.slot + 1)
    assert control["agent_pid"] == agent.pid


def test_the_attached_process_is_shown_with_its_real_id(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    attach(agent, granted)

    (process,) = agent.hub.usage(granted.claim["claim"])["processes"]
    assert process["pid"] == os.getpid()
    assert process["name"] == Path("/proc/self/comm").read_text().strip()
    assert abs(process["attached_at"] - time.time()) < 60


@pytest.mark.parametrize(
    ("request_bytes", "status", "message"),
    [
        pytest.param(request_of(WRONG), REFUSED, "no claim has this secret", id="a wrong secret"),
        pytest.param(request_of(WRONG, layout=LAYOUT + 1), VERSION, "layout", id="another layout"),
        pytest.param(request_of(WRONG, magic=1), REFUSED, "malformed", id="another magic number"),
        pytest.param(request_of("G" * 64), REFUSED, "malformed", id="a secret that is not hexadecimal"),
        pytest.param(request_of("0" * 63), REFUSED, "malformed", id="a short one"),
        pytest.param(request_of("0" * 65), REFUSED, "malformed", id="a long one"),
        pytest.param(b"x", REFUSED, "malformed", id="one byte"),
        pytest.param(b"\xff" * 72, REFUSED, "malformed", id="garbage of the right size"),
        pytest.param(os.urandom(100_000), REFUSED, "malformed", id="a hundred kilobytes"),
    ],
)
def test_anything_else_gets_no_pages_and_a_reason(
    agent: Any, ask: Ask, request_bytes: bytes, status: int, message: str
) -> None:
    agent.claim()

    answer = ask(agent, request_bytes)

    assert answer.status == status
    assert message in answer.message
    assert (answer.control_fd, answer.usage_fd) == (-1, -1)


def test_another_users_secret_is_of_no_use(agent: Any, attach: Ask) -> None:
    granted = agent.claim(uid=os.getuid() + 1)

    answer = attach(agent, granted)

    assert (answer.status, answer.control_fd) == (REFUSED, -1)
    assert f"belongs to uid {os.getuid() + 1}" in answer.message


def test_a_released_claim_is_told_from_a_wrong_secret(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    agent.hub.release_claim(granted.claim["claim"])

    answer = attach(agent, granted)

    assert answer.status == REFUSED
    assert "has been released" in answer.message


def test_an_attached_process_sees_the_release(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    attached = attach(agent, granted)

    agent.hub.release_claim(granted.claim["claim"])

    assert attached.control()["state"] == 2


def test_silent_ones_hold_up_nobody_and_are_shown_out(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    silent = [connected(agent) for _ in range(20)]

    assert attach(agent, granted).status == OK
    for connection in silent:
        assert connection.recv(100) == b"", "the agent closes within the test's patience of 60 s"
        connection.close()


def test_a_flood_of_connections_is_bounded_and_passes(own_agent: Any, attach: Ask) -> None:
    granted = own_agent.claim()
    flood = [connected(own_agent) for _ in range(600)]
    at_once = [own_agent.hub.health()["pid"], descriptors(own_agent)]

    attached = None
    deadline = time.monotonic() + 60
    while (attached is None or attached.status != OK) and time.monotonic() < deadline:
        try:
            attached = attach(own_agent, granted)
        except OSError:
            attached = None

    assert at_once[0] == own_agent.pid
    assert at_once[1] < 600
    assert attached is not None
    assert attached.status == OK
    for connection in flood:
        connection.close()


def test_whoever_leaves_before_the_answer_gets_no_slot(agent: Any) -> None:
    granted = agent.claim()
    os.kill(agent.pid, signal.SIGSTOP)  # so that all have left when it looks
    try:
        for _ in range(20):
            with connected(agent) as connection:
                connection.send(request_of(granted.secret))
    finally:
        os.kill(agent.pid, signal.SIGCONT)

    assert agent.hub.usage(granted.claim["claim"])["processes"] == []


def test_a_process_that_died_after_asking_gets_no_slot(agent: Any) -> None:
    """Its connection lives on in a child, so only its pidfd tells."""
    granted = agent.claim()
    asking = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import os, socket, sys, time\n"
            "connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "connection.connect(sys.argv[1])\n"
            "if os.fork():\n"
            "    os._exit(0)\n"
            "while os.getppid() == int(sys.argv[3]): time.sleep(0.001)\n"
            "time.sleep(0.2)\n"
            "connection.send(bytes.fromhex(sys.argv[2]))\n"
            "print(connection.recv(1000)[8])\n",
            *(str(agent.attach_socket), request_of(granted.secret).hex(), str(os.getpid())),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )

    assert asking.stdout.strip() == str(REFUSED)
    assert agent.hub.usage(granted.claim["claim"])["processes"] == []


def test_descriptors_sent_along_are_not_kept(agent: Any) -> None:
    granted = agent.claim()
    agent.hub.health()
    before = descriptors(agent)

    for _ in range(10):
        with connected(agent) as connection:
            rights = array.array("i", [0] * 20)
            connection.sendmsg([b"garbage"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            connection.recv(1000)

    assert agent.hub.usage(granted.claim["claim"])["processes"] == []
    eventually(lambda: descriptors(agent) <= before + 1, "none of 200 descriptors is kept")


def test_offences_cost_one_line_of_log_a_minute(own_agent: Any, ask: Ask) -> None:
    for _ in range(200):
        ask(own_agent, b"garbage")
    own_agent.hub.health()

    assert 1 <= own_agent.log.count("attach: uid") <= own_agent.minutes


def test_the_same_process_attaching_again_takes_the_place_of_its_earlier_self(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    first, second = attach(agent, granted), attach(agent, granted)

    assert (first.slot, second.slot) == (0, 0)
    assert second.generation == first.generation + 1
    assert len(agent.hub.usage(granted.claim["claim"])["processes"]) == 1


def test_one_process_may_hold_two_claims(agent: Any, attach: Ask) -> None:
    first, second = agent.claim("alice"), agent.claim("bob")

    attach(agent, first)
    attach(agent, second)

    for granted in (first, second):
        assert len(agent.hub.usage(granted.claim["claim"])["processes"]) == 1


def test_descriptors_do_not_pile_up(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    attach(agent, granted)
    agent.hub.health()
    before = descriptors(agent)

    for _ in range(50):
        attach(agent, granted)

    eventually(lambda: descriptors(agent) <= before + 2, "fifty attaches leave no descriptors")


def test_the_agent_shows_that_it_lives(agent: Any, attach: Ask) -> None:
    attached = attach(agent, agent.claim())
    first = attached.control()["heartbeat_ns"]

    deadline = time.monotonic() + 60
    while attached.control()["heartbeat_ns"] <= first:
        assert time.monotonic() < deadline
        time.sleep(0.02)
