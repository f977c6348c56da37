"""A real hub with its real proxy, real servers and a real agent on a simulated board, shared by the tests of a run.

A test finds all four quarters free and no server, and is checked to leave it so.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from jupyter_vgpu.client import ClaimInfo, HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.model import ClaimRequest

START_SECONDS = 180.0
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def wait_until(happened: Callable[[], Any], what: str, seconds: float = START_SECONDS) -> Any:
    """Return the first true answer; fail with `what` when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := happened()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.1)
    return answer


def free_ports(count: int) -> list[str]:
    """Return ports on the loopback interface that nobody listens on now.

    They lie below those that the host kernel gives to whoever asks for any, as a hub's services do before it listens.
    """
    found: set[int] = set()
    while len(found) < count:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.add(port)
    return [str(port) for port in found]


def end(process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    """Ask a process of ours to end, and see that it does."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(seconds)


_Server = TypeVar("_Server", bound="Server")


class Server:
    """A program with a folder of its own, started and stopped by a test."""

    folder: Path

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def running(self: _Server) -> Iterator[_Server]:
        """Run within the context; nothing is left after it, also where the start fails."""
        try:
            self.start()
            yield self
        finally:
            self.stop()
            shutil.rmtree(self.folder)


class Agent(Server):
    """A node agent on simulated boards: one A100 with 80 GiB unless said otherwise."""

    def __init__(self, boards: str = "a100-80") -> None:
        self.boards = boards
        self.options: tuple[str, ...] = ()  # more that it is told
        self.folder = Path(tempfile.mkdtemp(prefix="agent-"))
        self.runtime_dir = self.folder / "run"
        self.client = HubClient(self.runtime_dir, timeout_seconds=60.0)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [*(sys.executable, "-m", "jupyter_vgpu.cli"), "agent", "--simulate", self.boards]
            self.process = subprocess.Popen(
                [*command, "--runtime-dir", str(self.runtime_dir), *self.options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        wait_until(self.answers, f"the agent starts (see {self.folder / 'log'})")

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self.client.devices())
        except AgentUnreachableError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)

    def claims(self) -> list[ClaimInfo]:
        return self.client.claims()

    def hub(self, **environment: str) -> Hub:
        """Return a hub that is to get its slices here, not started yet."""
        return Hub(self, **environment)

    def make_claim(self, tenant: str, hub: str) -> str:
        """Claim a quarter behind a hub's back; return the claim's id."""
        (profile,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
        return self.client.create_claim(ClaimRequest(tenant, hub, os.getuid(), profile)).claim["claim"]

    def tenants(self) -> list[str]:
        return sorted(claim["tenant"] for claim in self.claims())


class Hub(Server):
    """A hub; `api` speaks for an admin's script, `browser` for a person."""

    config = HERE / "hub_config.py"
    start_seconds = 240.0  # most that a start may take, on a machine that is busy

    def __init__(self, agent: Agent, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hub-"))
        self.log = self.folder / "hub.log"
        self.ports = free_ports(3)
        self.url = f"http://127.0.0.1:{self.ports[0]}"
        self.token = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        self.wait_until = wait_until
        self._ledger: Ledger | None = None
        self.api = httpx.Client(
            base_url=f"{self.url}/hub/api", headers={"Authorization": f"token {self.token}"}, timeout=240.0
        )
        self._environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HUB_TEST_FOLDER": str(self.folder),
            "HUB_TEST_PORTS": ",".join(self.ports),
            "HUB_TEST_TOKEN": self.token,
            "HUB_TEST_AGENT": str(agent.runtime_dir),
            **environment,
        }

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(self.config)],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self.answers, f"the hub starts (see {self.log})", self.start_seconds)

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.api.get("/").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """End the hub as a power cut would, its proxy and servers left running."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def revive(self) -> None:
        """Start the hub again if a test killed it and failed: only a hub ends its proxy and servers."""
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)
        self.api.close()
        if self._ledger is not None:
            self._ledger.close()

    def ask(self, user: str, options: dict[str, Any] | None = None, server: str = "") -> httpx.Response:
        """Ask over REST for a server to be started; a user who is not there is made."""
        self.api.post(f"/users/{user}")
        path = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
        return self.api.post(path, json=options) if options is not None else self.api.post(path)

    def servers(self, user: str) -> dict[str, Any]:
        answer = self.api.get(f"/users/{user}")
        return answer.json()["servers"] if answer.status_code == 200 else {}

    def is_ready(self, user: str, server: str = "") -> bool:
        return bool(self.servers(user).get(server, {}).get("ready"))

    def spawn(self, user: str, profile: str = "1/4 GPU", server: str = "") -> None:
        answer = self.ask(user, {"vgpu_profile": profile}, server)
        assert answer.status_code in (201, 202), answer.text
        self.wait_ready(user, server)

    def wait_ready(self, user: str, server: str = "") -> None:
        wait_until(lambda: self.is_ready(user, server), f"the server of {user} is ready (see {self.log})")

    def stop_server(self, user: str, server: str = "") -> None:
        path = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
        answer = self.api.delete(path)
        assert answer.status_code in (202, 204, 400, 404), answer.text
        wait_until(lambda: not self.servers(user).get(server, {}).get("ready"), f"the server of {user} stops")

    def stop_all(self) -> None:
        running = [
            (user["name"], server)
            for user in self.api.get("/users").json()
            for server, state in user["servers"].items()
            if state.get("ready") or state.get("pending")
        ]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda one: self.stop_server(*one), running))

    def pid_of(self, user: str) -> int:
        """Return the process of a user's default server."""
        home = f"HOME={self.folder / 'homes' / user}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and home in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
        raise AssertionError(f"no process of {user}")

    def environment_of(self, user: str) -> list[str]:
        """Return the environment of a user's default server as `KEY=value`."""
        return Path(f"/proc/{self.pid_of(user)}/environ").read_text().split("\0")

    def failures(self) -> int:
        """Return the hub's count of failed spawns since the last good one."""
        return int(httpx.get(f"{self.url}/hub/test/failures", timeout=240.0).json()["failures"])

    def ledger(self) -> Ledger:
        """Return the hub's ledger, for reading."""
        if self._ledger is None:
            self._ledger = Ledger(f"sqlite:///{self.folder / 'jupyter_vgpu.sqlite'}")
        return self._ledger

    @contextlib.contextmanager
    def browser(self, user: str) -> Iterator[httpx.Client]:
        """A logged-in browser, as far as forms and cookies go."""
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=240.0) as client:
            page = client.get("/hub/login")
            token = client.cookies["_xsrf"]
            page = client.post("/hub/login", data={"username": user, "password": "pass", "_xsrf": token})
            assert page.status_code == 200, page.text
            yield client

    def submit(self, client: httpx.Client, data: dict[str, str]) -> httpx.Response:
        """Send the spawn form of a page as a browser would."""
        page = client.get("/hub/spawn")
        action = re.search(r'id="spawn_form"\s+action="([^"]+)"', page.text)
        assert action, page.text
        return client.post(action[1].replace("&amp;", "&"), files={key: (None, value) for key, value in data.items()})


@pytest.fixture(scope="session")
def agent_of_the_run() -> Iterator[Agent]:
    with Agent().running() as agent:
        yield agent


@pytest.fixture(scope="session")
def hub_of_the_run(agent_of_the_run: Agent) -> Iterator[Hub]:
    with Hub(agent_of_the_run).running() as hub:
        yield hub


@pytest.fixture
def agent(agent_of_the_run: Agent) -> Agent:
    """The agent, running."""
    return agent_of_the_run


@pytest.fixture
def hub(agent: Agent, hub_of_the_run: Hub) -> Iterator[Hub]:
    """The hub without a server, and every quarter free; checked to be so again after the test."""
    yield hub_of_the_run
    if agent.process is None or agent.process.poll() is not None:
        agent.start()
    hub_of_the_run.revive()
    hub_of_the_run.stop_all()
    wait_until(lambda: not agent.claims(), "all claims are released")
