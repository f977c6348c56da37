"""Real Jupyter servers, each a process of its own, and a real agent on a simulated board."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import asking
from harness.agents import NodeAgent
from harness.ports import free_port
from harness.waiting import wait_until
from jupyter_vgpu.client import GrantedClaim, HubClient
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

START_SECONDS = 120.0
ROOT = Path(__file__).parents[2]
LIB = ROOT / "tests" / "lib"


class JupyterServer:
    """One `jupyter server` with the extension, as a user's hub or shell would start it."""

    def __init__(self, folder: Path, environment: dict[str, str], base_url: str, config: str) -> None:
        """Start it and wait until it answers."""
        port = free_port()
        self.token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{port}{base_url}"
        settings = folder / "settings"
        settings.mkdir(parents=True)
        (settings / "jupyter_server_config.py").write_text(config)
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                    *("--port", str(port), "--ServerApp.port_retries=0", "--ServerApp.ip=127.0.0.1"),
                    *(f"--ServerApp.base_url={base_url}", f"--IdentityProvider.token={self.token}"),
                    f"--ServerApp.root_dir={folder}",
                ],
                cwd=folder,
                env=self._environment(folder, environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait_until_ready()

    def _environment(self, folder: Path, environment: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        mark = {name: os.environ[name] for name in ("JUPYTER_VGPU_TEST_RUN",) if name in os.environ}
        return {
            **kept,
            **mark,
            "HOME": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder / "settings"),
            # As the wheel installs it: the extension is on without anybody's doing.
            "JUPYTER_CONFIG_PATH": str(ROOT / "jupyter-config"),
            "JUPYTER_NO_CONFIG": "",
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"])),
            **environment,
        }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self.process.poll() is None, self.log()
            try:
                asking.get(f"{self.url}api", timeout=5)
                return
            except httpx.TransportError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.1)

    def log(self) -> str:
        """Return what the server has said so far."""
        return self._log.read_text(errors="replace")

    def client(self, with_token: bool = True) -> httpx.Client:
        """Return a client of the server, with its token or as a stranger."""
        headers = {"Authorization": f"token {self.token}"} if with_token else {}
        return asking.client(base_url=self.url, headers=headers, timeout=60)

    def get(self, path: str) -> Any:
        """Return the decoded answer to `GET path`."""
        with self.client() as client:
            return client.get(path).raise_for_status().json()

    def stop(self) -> None:
        """End it, by force if it must be."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Stream:
    """One open event stream; a context manager."""

    def __init__(self, server: JupyterServer, wait_seconds: float = 60) -> None:
        self._client = server.client()
        self._client.timeout = wait_seconds
        self._exit = ExitStack()

    def __enter__(self) -> Stream:
        self._exit.enter_context(self._client)
        self.response = self._exit.enter_context(self._client.stream("GET", "jupyter-vgpu/live"))
        self._lines = self.response.iter_lines()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._exit.close()

    def next(self) -> dict[str, Any]:
        """Return the next event, decoded; waits for it.

        Raises:
            EOFError: The server ended the stream, as HTTP wants it.
            httpx.ReadTimeout: Nothing came for as long as this stream waits.
        """
        for line in self._lines:
            if line.startswith("data: "):
                event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return event
        raise EOFError("the stream is over")

    def next_comment(self) -> str:
        """Return the next line that is there only so that there is one; waits for it, as `next` does."""
        for line in self._lines:
            if line.startswith(": "):
                return line.removeprefix(": ")
        raise EOFError("the stream is over")


@dataclass
class Exchange:
    """A connection to the agent through the relay."""

    asking: socket.socket
    asked: int = 0
    answered: int = 0
    is_over: bool = False

    def ask(self, block: bytes) -> None:
        """Count the requests in a piece of what is asked."""
        self.asked += block.count(b" HTTP/1.1\r\n")

    def answer(self, block: bytes) -> None:
        """Count the answer that a piece of what is said begins."""
        self.answered += block.startswith(b"HTTP/1.1 ")


class Relay:
    """Stands before the agent's user socket and counts what is asked; can stop passing on."""

    def __init__(self, path: Path, agent_api: str) -> None:
        """Listen at `path`, pass on to `agent_api`."""
        self.path = path
        self.is_stalled = False
        self._count = 0
        self._open: list[Exchange] = []
        self._api = agent_api
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def asked(self) -> int:
        """How many requests came so far, on whatever connection."""
        return self._count

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            exchange = Exchange(asking)
            self._open.append(exchange)
            threading.Thread(target=self._pass_on, args=(exchange,), daemon=True).start()

    def _pass_on(self, exchange: Exchange) -> None:
        with exchange.asking as asking, socket.socket(socket.AF_UNIX) as agent:
            agent.connect(self._api)
            answers = threading.Thread(target=_pump, args=(agent, asking, exchange.answer), daemon=True)
            answers.start()
            _pump(asking, agent, lambda block: self._noted(exchange, block))
            answers.join(60)
        exchange.is_over = True

    def hang_up(self) -> None:
        """End every connection there is now, once all that was asked on it is answered; none that comes meanwhile."""
        ending, self._open = self._open, []
        for exchange in ending:
            deadline = time.monotonic() + START_SECONDS
            while exchange.answered < exchange.asked and not exchange.is_over:
                assert time.monotonic() < deadline, "the agent does not answer"
                time.sleep(0.001)
            with contextlib.suppress(OSError):
                exchange.asking.shutdown(socket.SHUT_RDWR)

    def _noted(self, exchange: Exchange, block: bytes) -> None:
        """Count the requests in a piece of what is asked; hold it back while the relay is stalled."""
        exchange.ask(block)
        self._count = self._count + block.count(b" HTTP/1.1\r\n")
        while self.is_stalled:
            time.sleep(0.05)

    def close(self) -> None:
        """Stop listening; who asks now finds nobody."""
        self.is_stalled = False
        self.hang_up()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)
        self.hang_up()
        self.path.unlink()


def _pump(source: socket.socket, target: socket.socket, note: Callable[[bytes], None] = lambda block: None) -> None:
    try:
        while block := source.recv(65536):
            note(block)
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., JupyterServer]]:
    """Return a function that starts a server; all are stopped at the end."""
    servers: list[JupyterServer] = []

    def start(environment: dict[str, str] | None = None, base_url: str = "/", config: str = "") -> JupyterServer:
        server = JupyterServer(tmp_path_factory.mktemp("server"), environment or {}, base_url, config)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    """Return a client of a real agent of a node with one simulated A100-80."""
    with NodeAgent(tmp_path_factory.mktemp("agent")).running() as agent:
        yield agent.hub


@pytest.fixture(scope="session")
def quarter(agent: HubClient) -> Iterator[GrantedClaim]:
    """Return a claim of a quarter of the board."""
    profile = Profile("1/4 GPU", share_ppm=250_000, ceiling_ppm=1_000_000, memory=Memory(Fraction(1, 4)))
    granted = agent.create_claim(ClaimRequest("ada", "a hub", os.getuid(), profile))
    yield granted
    agent.release_claim(granted.claim["claim"])


@pytest.fixture(scope="session")
def relay(quarter: GrantedClaim, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """Return a relay before the agent's user socket."""
    relay = Relay(tmp_path_factory.mktemp("relay") / "user.sock", quarter.edits.env["JUPYTER_VGPU_API"])
    yield relay
    relay.close()


@pytest.fixture(scope="session")
def server(quarter: GrantedClaim, relay: Relay, start_server: Callable[..., JupyterServer]) -> JupyterServer:
    """Return a server in the quarter slice, at a base URL like a hub's, that asks through the relay."""
    environment = quarter.edits.applied_to({"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})
    return start_server({**environment, "JUPYTER_VGPU_API": str(relay.path)}, base_url="/a/b/")


# A process that attaches, and has launched some more four times a second, until its standard input ends.
LAUNCHER = """
import os, select, sys, time
from harness.attach import answer_on, connected, request_of
with connected(os.environ["JUPYTER_VGPU_SOCKET"]) as connection:
    connection.send(request_of(os.environ["JUPYTER_VGPU_SECRET"]))
    attached = answer_on(connection)
assert attached is not None and attached.slot >= 0, attached
launches = 0
while not select.select([sys.stdin], [], [], 0.25)[0]:
    launches += 1
    attached.write_use(launches=launches)
"""


@pytest.fixture
def at_work(agent: HubClient, quarter: GrantedClaim) -> Iterator[None]:
    """Let something change in the slice all the time: where nothing does, the agent keeps its answers back."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        env={**os.environ, **quarter.edits.env, "PYTHONPATH": f"{LIB}:{os.environ['PYTHONPATH']}"},
        stdin=subprocess.PIPE,
    )
    pids = lambda: [each["pid"] for each in agent.usage(quarter.claim["claim"])["processes"]]  # noqa: E731
    wait_until(lambda: process.pid in pids(), "it has attached")
    yield
    process.communicate()
    wait_until(lambda: process.pid not in pids(), "it is gone")
    assert process.returncode == 0


@pytest.fixture
def open_stream() -> Iterator[Callable[..., Stream]]:
    """Return a function that opens an event stream; all are closed at the end of the test."""
    with ExitStack() as streams:
        yield lambda server, **options: streams.enter_context(Stream(server, **options))


@pytest.fixture(scope="session")
def server_without_slice(start_server: Callable[..., JupyterServer]) -> JupyterServer:
    """Return a server that was started without a slice, on a machine with no agent."""
    return start_server()
