"""Servers that a hub had started when it was killed, before it had written down that it had."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jupyter_vgpu.hub.orphans import servers_left

QUARTER = {"vgpu_profile": "1/4 GPU"}


USER = "quick-unheard"  # its server is up at once, and its spawner does not come back from `start`; see hub_config.py
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def process_of(hub: Any) -> int | None:
    with contextlib.suppress(AssertionError):
        return int(hub.pid_of(USER))
    return None


@pytest.fixture
def lost(hub: Any, agent: Any) -> Iterator[int]:
    """Process of a server that a hub has started, and was killed before its start had come to an end."""
    with ThreadPoolExecutor(1) as person:
        asked = person.submit(hub.ask, USER, QUARTER)
        pid = hub.wait_until(lambda: process_of(hub), "the server is started")
        hub.kill()
        asked.exception()  # whatever it is told
    yield pid
    if process_of(hub) == pid:
        os.kill(pid, signal.SIGKILL)


def test_it_goes_on_in_its_slice_and_ends_with_it(hub: Any, agent: Any, lost: int) -> None:
    (before,) = agent.claims()

    hub.start()

    hub.wait_ready(USER)
    assert process_of(hub) == lost
    assert [claim["claim"] for claim in agent.claims()] == [before["claim"]]
    state = hub.servers(USER)[""]["state"]
    assert (state["pid"], state["vgpu_claim_id"]) == (lost, before["claim"])
    hub.stop_server(USER)
    hub.wait_until(lambda: not agent.claims(), "the slice is released")
    hub.wait_until(lambda: process_of(hub) is None, "the process has ended")


def test_one_that_died_meanwhile_leaves_no_claim(hub: Any, agent: Any, lost: int) -> None:
    os.kill(lost, signal.SIGKILL)
    hub.wait_until(lambda: process_of(hub) is None, "it is dead")
    assert agent.tenants() == [USER]

    hub.start()

    hub.wait_until(lambda: not agent.claims(), "the slice is released")
    hub.wait_until(lambda: not hub.ledger().open_entries(), "the ledger says so, a moment later")


def test_only_leaders_of_a_session_that_were_told_so_are_taken_for_servers() -> None:
    # Nobody's else: all of this machine's processes are looked at, and another worker's hub may have a user called ada.
    prefix = f"/user/ada-{os.getpid()}/"
    told = {"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:4711{prefix}"}
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    started = [
        subprocess.Popen(program, env={**told, "JUPYTERHUB_API_TOKEN": token, **more}, start_new_session=leads, **PIPES)
        for token, leads, more in (
            ("first", True, {}),
            ("second", True, {}),
            ("no leader", False, {}),
            ("another's", True, {"JUPYTERHUB_SERVICE_PREFIX": f"{prefix}two/"}),
            ("no port", True, {"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1/"}),
        )
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # it has its own environment by now, not its parent's

        found = servers_left(os.getuid(), prefix)

        assert [(server.pid, server.port, server.token) for server in found] == [
            (started[0].pid, 4711, "first"),
            (started[1].pid, 4711, "second"),
        ]
        assert servers_left(os.getuid() + 1, prefix) == []
    finally:
        for process in started:
            process.communicate()
