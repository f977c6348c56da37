"""The service answers before it can do anything, and ends when its hub does, however that ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import asking
from harness.ports import free_port
from harness.waiting import wait_until
from jupyter_vgpu.scopes import SETTINGS_VARIABLE
from jupyter_vgpu.service.early import EarlyAnswer

PATIENT = 100.0

# Python imports this of itself at its start. The slow import waits until the test has seen enough.
SLOW_JUPYTERHUB = """
import pathlib, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "jupyterhub":
            while not pathlib.Path({may_go_on!r}).exists():
                time.sleep(0.05)

sys.meta_path.insert(0, Slow())
"""
# A hub, as far as a service is concerned: its parent.
PARENT = "import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'jupyter_vgpu.service']); p.wait()"


@contextmanager
def service(
    tmp_path: Path, port: int, command: tuple[str, ...] = ("-m", "jupyter_vgpu.service"), **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told what a hub tells its service; that hub is not there."""
    path = tmp_path / "settings"
    told = {"agent": str(tmp_path), "ledger_url": f"sqlite:///{tmp_path / 'ledger.sqlite'}", **settings}
    path.write_text(json.dumps(told))
    environment = {
        **os.environ,
        SETTINGS_VARIABLE: str(path),
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
        "JUPYTERHUB_SERVICE_NAME": "vgpu",
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
        "JUPYTERHUB_SERVICE_PREFIX": "/services/vgpu/",
        "JUPYTERHUB_CLIENT_ID": "service-vgpu",
        "JUPYTERHUB_API_TOKEN": "of-the-service",
        "JUPYTERHUB_API_URL": "http://127.0.0.1:1/hub/api",
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command], env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def answer_of(port: int) -> httpx.Response | None:
    try:
        return asking.get(f"http://127.0.0.1:{port}/services/vgpu/", timeout=PATIENT)
    except httpx.TransportError:
        return None


def test_it_answers_while_its_imports_take_long_and_serves_when_they_are_done(tmp_path: Path) -> None:
    may_go_on = tmp_path / "may-go-on"
    (tmp_path / "sitecustomize.py").write_text(SLOW_JUPYTERHUB.format(may_go_on=str(may_go_on)))
    port = free_port()

    with service(tmp_path, port):
        early = wait_until(lambda: answer_of(port), "something answers")
        again = answer_of(port)
        may_go_on.touch()
        wait_until(lambda: getattr(answer_of(port), "status_code", 0) == 302, "the service itself answers", PATIENT)

    assert again is not None
    for answer in (early, again):
        assert answer.status_code == 429
        assert "is starting" in answer.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["told to end", "interrupted"])
def test_it_ends_when_it_is_told_to_though_the_agent_hangs(tmp_path: Path, number: int) -> None:
    port = free_port()
    # An agent that takes connections and says nothing.
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "hub.sock"))
        agent.listen()
        with service(tmp_path, port) as process:
            wait_until(lambda: getattr(answer_of(port), "status_code", 0) == 302, "the service answers", PATIENT)
            process.send_signal(number)

            assert process.wait(PATIENT) == 0


def test_it_ends_when_its_hub_is_killed(tmp_path: Path) -> None:
    port = free_port()
    script = tmp_path / "parent.py"
    # The parent's own number is known only in it.
    script.write_text(
        "import json, os\n"
        f"path = {str(tmp_path / 'settings')!r}\n"
        "told = {**json.load(open(path)), 'hub_pid': os.getpid()}\n"
        "json.dump(told, open(path, 'w'))\n" + PARENT
    )

    with service(tmp_path, port, (str(script),)) as hub:
        wait_until(lambda: getattr(answer_of(port), "status_code", 0) == 302, "the service answers", PATIENT)
        hub.kill()

        wait_until(lambda: answer_of(port) is None, "the service ends with its hub", PATIENT)


def test_it_does_not_serve_for_a_hub_that_is_not_its_parent(tmp_path: Path) -> None:
    with service(tmp_path, free_port(), hub_pid=os.getppid()) as process:
        assert process.wait(PATIENT) == 0


def services_of(hub: Any) -> list[int]:
    """Return the processes that serve for a hub."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            told = (entry / "environ").read_bytes() if b"jupyter_vgpu.service" in words else b""
            if f"JUPYTERHUB_API_URL=http://127.0.0.1:{hub.ports[1]}/".encode() in told:
                found.append(int(entry.name))
    return found


def test_a_hub_that_was_killed_and_is_started_again_has_one_service_that_knows_who_holds_what(hub: Any) -> None:
    hub.spawn("quick-ada")
    before = services_of(hub)

    hub.kill()
    hub.start()
    with hub.as_user("quick-root") as root:
        seen = root.get("/api/claims").json()["claims"]

    assert [one["user"] for one in seen] == ["quick-ada"]
    hub.wait_until(lambda: len(services_of(hub)) == 1, "the old service has ended", PATIENT)
    assert len(before) == 1
    assert services_of(hub) != before


@pytest.mark.parametrize("url", ["", "http://127.0.0.1", "https://127.0.0.1:9", "127.0.0.1:9"])
def test_where_to_listen_must_be_said(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL as"):
        EarlyAnswer(url)


def test_who_says_nothing_or_hangs_up_early_keeps_nobody_else_from_an_answer() -> None:
    port = free_port()
    early = EarlyAnswer(f"http://127.0.0.1:{port}")
    try:
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as second:
            second.sendall(b"GET / HT")
            second.close()
            answer = answer_of(port)
    finally:
        early.hand_over().close()

    assert answer is not None
    assert answer.status_code == 429
