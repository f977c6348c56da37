"""A real hub with its real proxy and real servers, and the agent that it asks, each with a folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx

from harness import asking
from harness.agents import NodeAgent
from harness.ports import free_ports
from harness.waiting import wait_until
from jupyter_vgpu.client import ClaimInfo
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.ledger import Entry, Ledger
from jupyter_vgpu.model import ClaimRequest

BIN = Path(sys.executable).parent
STOP_SECONDS = 120.0
MOST_SERVERS = 30  # of a hub at a time

_Agent = TypeVar("_Agent", bound="Agent")
_Hub = TypeVar("_Hub", bound="Hub")


class Agent(NodeAgent):
    """A node agent on simulated boards: one A100 with 80 GiB unless said otherwise."""

    def __init__(self, boards: str = "a100-80", *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agent-"))
        super().__init__(self.folder / "run", *options, boards=boards, log_path=self.folder / "log")

    @contextlib.contextmanager
    def running(self: _Agent) -> Iterator[_Agent]:
        """Run within the context; nothing is left after it, also where the start fails."""
        try:
            with super().running():
                yield self
        finally:
            shutil.rmtree(self.folder)

    def claims(self) -> list[ClaimInfo]:
        return self.hub.claims()

    def make_claim(self, tenant: str, hub: str) -> str:
        """Claim a quarter behind a hub's back; return the claim's id."""
        (profile,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})
        return self.hub.create_claim(ClaimRequest(tenant, hub, os.getuid(), profile)).claim["claim"]

    def tenants(self) -> list[str]:
        return sorted(claim["tenant"] for claim in self.claims())


class Hub:
    """A hub; `api` speaks for an admin's script, `browser` for a person."""

    config = Path(__file__).parents[2] / "hub" / "hub_config.py"
    start_seconds = 240.0  # most that a start may take, on a machine that is busy

    def __init__(self, agent: Agent, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hub-"))
        self.agent = agent
        self.log = self.folder / "hub.log"
        self.ports = [str(port) for port in free_ports(3)]
        self.url = f"http://127.0.0.1:{self.ports[0]}"
        self.token = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        self.wait_until = wait_until  # for tests that are given a hub
        self._ledger: Ledger | None = None
        self.api = asking.client(
            base_url=f"{self.url}/hub/api", headers={"Authorization": f"token {self.token}"}, timeout=240.0
        )
        self._environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HUB_TEST_FOLDER": str(self.folder),
            "HUB_TEST_PORTS": ",".join(self.ports),
            "HUB_TEST_SERVER_PORTS": ",".join(map(str, free_ports(MOST_SERVERS))),
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
        wait_until(self.answers, lambda: f"the hub starts; its log:\n{self.log.read_text()}", self.start_seconds)

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
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(STOP_SECONDS)
        self.api.close()
        if self._ledger is not None:
            self._ledger.close()

    @contextlib.contextmanager
    def running(self: _Hub) -> Iterator[_Hub]:
        """Run within the context; nothing is left after it, also where the start fails."""
        try:
            self.start()
            yield self
        finally:
            self.stop()
            shutil.rmtree(self.folder)

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

    def clear(self) -> None:
        """Stop all servers, and wait until all slices are free."""
        self.stop_all()
        wait_until(lambda: not self.agent.claims(), "all claims are released")

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
        return int(asking.get(f"{self.url}/hub/test/failures", timeout=240.0).json()["failures"])

    def ledger(self) -> Ledger:
        """Return the hub's ledger, for reading."""
        if self._ledger is None:
            self._ledger = Ledger(f"sqlite:///{self.folder / 'jupyter_vgpu.sqlite'}")
        return self._ledger

    def ended_claim(self, user: str) -> Entry:
        """Return a user's last claim once the ledger says how it ended: a moment after the agent has none of it."""

        def ended() -> Entry | None:
            entries = self.ledger().history(user)
            return entries[-1] if entries and entries[-1].state == "released" else None

        entry: Entry = wait_until(ended, f"the ledger says how the claim of {user} ended")
        return entry

    @contextlib.contextmanager
    def browser(self, user: str) -> Iterator[httpx.Client]:
        """A logged-in browser, as far as forms and cookies go."""
        with asking.client(base_url=self.url, follow_redirects=True, timeout=240.0) as client:
            page = client.get("/hub/login")
            token = client.cookies["_xsrf"]
            page = client.post("/hub/login", data={"username": user, "password": "pass", "_xsrf": token})
            assert page.status_code == 200, page.text
            yield client

    def submit(self, client: httpx.Client, data: dict[str, str]) -> httpx.Response:
        """Send the spawn form of a page as a browser would; after a second the hub leads on to the progress page."""
        page = client.get("/hub/spawn")
        action = re.search(r'id="spawn_form"\s+action="([^"]+)"', page.text)
        assert action, page.text
        return client.post(action[1].replace("&amp;", "&"), files={key: (None, value) for key, value in data.items()})

    def once_started(self, client: httpx.Client, page: httpx.Response) -> httpx.Response:
        """Return what a form led to: the page itself or, if it shows progress, the one after it, as when it failed."""

        def next_page() -> httpx.Response | None:
            answer = client.get(page.url)
            is_pending = answer.url == page.url and answer.status_code == 200
            return None if is_pending else answer

        if not page.url.path.startswith("/hub/spawn-pending/"):
            return page
        after: httpx.Response = wait_until(next_page, f"the start ends (see {self.log})")
        return after


class ServedHub(Hub):
    """A hub with the service; its administrator is `quick-root`."""

    def __init__(self, agent: Agent, **environment: str) -> None:
        super().__init__(agent, HUB_TEST_SERVICE="1", HUB_TEST_ADMINS="quick-root", **environment)

    def start(self) -> None:
        """Start the hub, which does not wait until its service can do more than answer."""
        super().start()
        page = f"{self.url}/services/vgpu/"
        wait_until(lambda: asking.get(page, timeout=240.0).status_code == 302, f"it serves (see {self.log})")

    def token_of(self, user: str, *scopes: str) -> str:
        """Return a token of a user; without scopes, one that may do what they may."""
        self.api.post(f"/users/{user}")
        wish = {"scopes": [*scopes, "access:services!service=vgpu"]} if scopes else {}
        answer = self.api.post(f"/users/{user}/tokens", json=wish)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    @contextlib.contextmanager
    def by_token(self, token: str) -> Iterator[httpx.Client]:
        """A script that asks the service with a token, through the proxy."""
        with asking.client(
            base_url=f"{self.url}/services/vgpu", headers={"Authorization": f"token {token}"}, timeout=240.0
        ) as client:
            yield client

    def as_user(self, user: str, *scopes: str) -> contextlib.AbstractContextManager[httpx.Client]:
        return self.by_token(self.token_of(user, *scopes))

    def claim_of(self, user: str, server: str = "") -> str:
        """Return the id of the claim that a server holds, which the ledger knows."""
        (entry,) = self.ledger().open_entries(user, server)
        assert entry.claim_id
        return str(entry.claim_id)
