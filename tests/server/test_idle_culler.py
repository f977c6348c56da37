"""An open panel keeps nobody's server alive: seen at a real proxy, a real hub, and a real idle-culler."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.ports import free_ports
from jupyter_vgpu.client import HubClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0


def wait_until(happened: Callable[[], Any], what: str) -> Any:
    """Return the first true answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := happened()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_SECONDS} s"
        time.sleep(0.2)
    return answer


class Hub:
    """A hub with its proxy; speaks for an admin's script."""

    def __init__(self, folder: Path, agent: HubClient) -> None:
        self.token = secrets.token_hex(16)
        self.ports = [str(port) for port in free_ports(3)]
        self.url = f"http://127.0.0.1:{self.ports[0]}"
        self._log = folder / "hub.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(Path(__file__).with_name("culled_hub_config.py"))],
                cwd=folder,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"])),
                    "HUB_TEST_FOLDER": str(folder),
                    "HUB_TEST_PORTS": ",".join(self.ports),
                    "HUB_TEST_TOKEN": self.token,
                    "HUB_TEST_AGENT": str(agent.runtime_dir),
                    "HUB_TEST_EXTENSION": str(ROOT / "jupyter-config"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        headers = {"Authorization": f"token {self.token}"}
        self.api = httpx.Client(base_url=f"{self.url}/hub/api", headers=headers, timeout=60)
        self.proxy = httpx.Client(base_url=f"http://127.0.0.1:{self.ports[2]}/api", headers=headers, timeout=60)
        wait_until(self._answers, "the hub starts")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text(errors="replace")
        try:
            return self.api.get("/").status_code == 200
        except httpx.TransportError:
            return False

    def start_server(self, user: str) -> None:
        """Start a user's server in a quarter of the board, and wait until it runs."""
        self.api.post(f"/users/{user}").raise_for_status()
        self.api.post(f"/users/{user}/server", json={"vgpu_profile": "1/4 GPU"}).raise_for_status()
        wait_until(lambda: self.is_ready(user), f"the server of {user} runs")

    def is_ready(self, user: str) -> bool:
        return bool(self.server(user).get("ready"))

    def server(self, user: str) -> dict[str, Any]:
        servers: dict[str, Any] = self.api.get(f"/users/{user}").raise_for_status().json()["servers"]
        state: dict[str, Any] = servers.get("", {})
        return state

    def client_of(self, user: str) -> httpx.Client:
        """Return a client of a user's server, as the user."""
        token = self.api.post(f"/users/{user}/tokens").raise_for_status().json()["token"]
        headers = {"Authorization": f"token {token}"}
        return httpx.Client(base_url=f"{self.url}/user/{user}/", headers=headers, timeout=60)

    def activity(self, user: str) -> list[datetime]:
        """Return when the proxy, and when the hub, last saw something done at a user's server."""
        route = self.proxy.get("/routes").raise_for_status().json()[f"/user/{user}"]
        return [moment(route["last_activity"]), moment(self.server(user)["last_activity"])]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(300)
        self.api.close()
        self.proxy.close()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class OpenPanel:
    """An event stream that is read as a browser does, until it ends."""

    def __init__(self, client: httpx.Client) -> None:
        self.events = 0
        self._client = client
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            with self._client.stream("GET", "jupyter-vgpu/live") as stream:
                stream.raise_for_status()
                for line in stream.iter_lines():
                    self.events += line.startswith("data: ")
        except httpx.TransportError:
            return  # the server was stopped in the middle

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def wait_for(self, events: int) -> None:
        """Return when so many events more have come."""
        goal = self.events + events
        wait_until(lambda: self.events >= goal, f"{events} events")

    def wait_until_closed(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self.is_open
        self._client.close()


@pytest.fixture(scope="module")
def hub(agent: HubClient) -> Iterator[Hub]:
    """Return a hub with two servers in slices: of `watched`, and of `alone`."""
    folder = Path(tempfile.mkdtemp(prefix="culled-"))
    hub = Hub(folder, agent)
    try:
        for user in ("watched", "alone"):
            hub.start_server(user)
        yield hub
    finally:
        hub.stop()
        shutil.rmtree(folder)


def test_a_server_says_what_the_hub_allows_it(hub: Hub) -> None:
    with hub.client_of("alone") as client:

        def session() -> dict[str, float]:
            with client.stream("GET", "jupyter-vgpu/live") as stream:
                event = next(line for line in stream.iter_lines() if line.startswith("data: "))
            said: dict[str, float] = json.loads(event.removeprefix("data: "))["session"]
            return said

        said = wait_until(session, "the hub is asked")

    # Three hours by its profile; a quarter of the board, since a moment, of twenty GPU-hours.
    assert 2 * 3600 < said["left_seconds"] <= 3 * 3600
    assert 19 < said["gpu_hours_left"] < said["gpu_hours_limit"] == 20


def test_the_hub_tells_servers_of_their_own_user_only(hub: Hub) -> None:
    page = f"{hub.url}/hub/vgpu/session"

    assert httpx.get(page, timeout=60).status_code == 403
    assert hub.api.get(page).status_code == 403, "a service has no server"
    token = hub.api.post("/users/watched/tokens").raise_for_status().json()["token"]
    with httpx.Client(headers={"Authorization": f"token {token}"}, timeout=60) as server:
        mine = server.get(page).raise_for_status().json()
        named = server.get(page, params={"server": "other"}).json()
    assert mine["ends_at"] > time.time()
    assert "ends_at" not in named


def test_an_open_panel_is_no_activity_and_an_idle_server_with_one_is_culled_as_one_without(
    hub: Hub, agent: HubClient
) -> None:
    panel = OpenPanel(hub.client_of("watched"))
    panel.wait_for(2)
    opened = datetime.now(timezone.utc)

    # Several times, proxy and hub had the chance to take note.
    panel.wait_for(3)

    assert [at for at in hub.activity("watched") if at > opened] == []
    # They do take note of what is activity.
    with hub.client_of("watched") as worker:
        worker.get("api/contents").raise_for_status()
    wait_until(lambda: all(at > opened for at in hub.activity("watched")), "work is seen as activity")

    culler = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterhub_idle_culler", f"--url={hub.url}/hub/api"),
            *("--timeout=5", "--cull-every=1"),
        ],
        env={**os.environ, "JUPYTERHUB_API_TOKEN": hub.token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # It ends with its server only: while nothing changes events are seconds apart, and say nothing of that.
        assert panel.is_open
        for user in ("alone", "watched"):
            wait_until(lambda user=user: not hub.server(user), f"the idle server of {user} is culled")
        panel.wait_until_closed()
        assert culler.poll() is None
    finally:
        culler.terminate()
        culler.wait(120)

    tenants = {"watched", "alone"}
    wait_until(lambda: not tenants & {claim["tenant"] for claim in agent.claims()}, "the slices are given back")
