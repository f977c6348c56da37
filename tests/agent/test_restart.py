"""The agent stops, dies, comes back; its directory has one agent at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.drivers import without_a_driver
from jupyter_vgpu.client import HubClient
from jupyter_vgpu.errors import AgentUnreachableError

Ask = Callable[..., Any]
SOCKETS = ("attach.sock", "hub.sock", "user.sock")


def refused_start(folder: Path, *options: str) -> str:
    """Return what an agent that does not start says; it must end with 1 or 2 and one line."""
    tried = subprocess.run(
        [*(sys.executable, "-m", "jupyter_vgpu.cli", "agent"), "--runtime-dir", str(folder), *options],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert tried.returncode in (1, 2), tried.stderr
    assert tried.stderr.startswith("jupyter vgpu agent: ")
    assert tried.stderr.count("\n") == 1
    return tried.stderr


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory(prefix="a") as path:
        yield Path(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean(own_agent: Any, number: int) -> None:
    own_agent.claim()

    code = own_agent.end(number)

    assert code == 0
    assert sorted(path.name for path in own_agent.folder.iterdir()) == ["hub.token", "state.json"]
    assert "Traceback" not in own_agent.log


def test_nobody_hangs_on_a_stopped_agent(own_agent: Any) -> None:
    own_agent.end()

    with pytest.raises(AgentUnreachableError, match="start it with `jupyter vgpu agent`"):
        own_agent.hub.health()


def test_a_stuck_agent_is_given_up_in_time(own_agent: Any) -> None:
    """A stopped process still accepts connections; the client's time limit ends the wait."""
    os.kill(own_agent.pid, signal.SIGSTOP)
    try:
        with pytest.raises(AgentUnreachableError, match="has not answered within"):
            HubClient(own_agent.folder, timeout_seconds=0.2).health()
    finally:
        os.kill(own_agent.pid, signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_claims_survive_a_restart_and_their_secrets_still_open_them(own_agent: Any, attach: Ask, number: int) -> None:
    granted = own_agent.claim(share="1/4", memory="10GiB")
    before = attach(own_agent, granted)
    first_pid = own_agent.pid

    own_agent.end(number)
    own_agent.start()
    after = attach(own_agent, granted)

    assert own_agent.hub.claims() == [granted.claim]
    assert own_agent.user(granted).slice()["claim"] == granted.claim["claim"]
    assert after.status == 0
    assert after.control()["memory_limit_bytes"] == 10 << 30
    assert (before.control()["agent_pid"], after.control()["agent_pid"]) == (first_pid, own_agent.pid)


def test_who_has_an_answer_is_on_disk_however_many_ask_at_once(own_agent: Any) -> None:
    """Those who ask while others are being written down are written down together, and not answered before that."""
    state = own_agent.folder / "state.json"

    def come_and_go(number: int) -> tuple[bool, bool]:
        claim_id = own_agent.claim(f"user-{number}", share="1/16").claim["claim"]
        is_there = claim_id in state.read_text()
        own_agent.hub.release_claim(claim_id)
        return is_there, claim_id in state.read_text()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(come_and_go, range(32)))

    assert found == [(True, False)] * 32


def test_a_released_claim_does_not_come_back(own_agent: Any) -> None:
    kept, gone = own_agent.claim("kept"), own_agent.claim("gone")
    own_agent.hub.release_claim(gone.claim["claim"])

    own_agent.end(signal.SIGKILL)
    own_agent.start()

    assert own_agent.hub.claims() == [kept.claim]


def test_a_dead_agents_pages_keep_their_limit_and_lose_their_heartbeat(own_agent: Any, attach: Ask) -> None:
    attached = attach(own_agent, own_agent.claim(share="1/4", memory="10GiB"))
    own_agent.end(signal.SIGKILL)
    last = attached.control()["heartbeat_ns"]

    time.sleep(0.6)

    control = attached.control()
    assert control["memory_limit_bytes"] == 10 << 30
    assert control["heartbeat_ns"] == last


def test_a_claim_whose_holder_died_meanwhile_is_released(own_agent: Any) -> None:
    granted = own_agent.claim("kept")
    own_agent.end(signal.SIGKILL)
    path = own_agent.folder / "state.json"
    state = json.loads(path.read_text())
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    orphan = {**state["claims"][0]["claim"], "claim_id": "orphan", "secret_sha256": "0" * 64}
    reused = {**orphan, "claim_id": "reused"}
    state["claims"] += [
        {"claim": orphan, "holder": {"pid": dead.pid, "started_ticks": 1}},
        {"claim": reused, "holder": {"pid": os.getpid(), "started_ticks": 1}},
    ]
    path.write_text(json.dumps(state))

    own_agent.start()

    deadline = time.monotonic() + 60
    while len(own_agent.hub.claims()) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert own_agent.hub.claims() == [granted.claim]


def test_the_hub_token_outlives_the_agent(own_agent: Any) -> None:
    token = (own_agent.folder / "hub.token").read_text()

    own_agent.end()
    own_agent.start()

    assert (own_agent.folder / "hub.token").read_text() == token
    assert (own_agent.folder / "hub.token").stat().st_mode & 0o777 == 0o600


def test_a_second_agent_on_the_same_directory_is_refused_and_the_first_goes_on(own_agent: Any) -> None:
    granted = own_agent.claim()

    message = refused_start(own_agent.folder, "--simulate", "a100-80")

    assert f"another agent (process {own_agent.pid}) serves {own_agent.folder}" in message
    assert "--runtime-dir" in message
    assert own_agent.hub.claims() == [granted.claim]
    assert all((own_agent.folder / name).exists() for name in (*SOCKETS, "board.sim"))


def test_a_directory_that_others_may_write_in_is_refused(folder: Path) -> None:
    folder.chmod(0o777)

    message = refused_start(folder, "--simulate", "a100-80")

    assert f"chmod go-w {folder}" in message
    assert list(folder.iterdir()) == []


def test_a_state_that_is_not_ours_is_refused_and_kept(folder: Path) -> None:
    (folder / "state.json").write_text("{}")

    message = refused_start(folder, "--simulate", "a100-80")

    assert "move it away to start without them" in message
    assert (folder / "state.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--simulate", "a1000"], "known boards are a100-40, a100-80", id="an unknown board"),
        pytest.param(["--simulate", "0xa100-80"], "known boards are", id="no boards"),
        pytest.param(
            ["--simulate", "a100-80", "--hub-user", "no-such-user"], "--hub-user: 'no-such-user'", id="no user"
        ),
    ],
)
def test_a_bad_option_is_refused_and_leaves_nothing(folder: Path, options: list[str], message: str) -> None:
    assert message in refused_start(folder, *options)

    assert list(folder.iterdir()) == []


def test_a_directory_too_deep_for_sockets_is_refused(folder: Path) -> None:
    deep = folder / ("d" * 100)

    assert "at most 95 bytes" in refused_start(deep, "--simulate", "a100-80")
    assert not deep.exists()


@without_a_driver
def test_without_a_driver_the_agent_says_so_and_offers_the_simulation(folder: Path) -> None:
    message = refused_start(folder)

    assert "no NVIDIA driver answers" in message
    assert "--simulate a100-80" in message
    assert list(folder.iterdir()) == []


def test_an_agent_is_not_started_inside_a_slice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_vgpu.native import INTERCEPT_LIBRARY

    monkeypatch.setenv("LD_PRELOAD", str(INTERCEPT_LIBRARY))

    assert "inside a slice" in refused_start(folder, "--simulate", "a100-80")
