"""A real agent on a simulated board, and processes that attach, hold memory and use the device."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agents import NodeAgent
from harness.attach import Attached, answer_on, connected, request_of
from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.model import ClaimRequest
from jupyter_vgpu.pages import LAYOUT


class AgentProcess(NodeAgent):
    """An agent of two boards, and what its tests ask of it."""

    def __init__(self, folder: Path, *options: str, board: Path | None = None) -> None:
        """Say where; `board`: the state file of a board that outlives the agent."""
        super().__init__(folder, *options, boards=board or "2xa100-80")
        self.folder = folder
        self._made_at = time.monotonic()

    @property
    def minutes(self) -> int:
        """Return how many minutes have begun since the first start: what is said once a minute is said so often."""
        return 1 + int((time.monotonic() - self._made_at) // 60)

    @property
    def attach_socket(self) -> Path:
        return self.folder / "attach.sock"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)

    def claim(self, tenant: str = "alice", uid: int | None = None, **entry: Any) -> GrantedClaim:
        """Return a new claim, of a quarter unless `entry` says otherwise."""
        profile = parse_profiles({"offer": entry or {"share": "1/4"}})[0]
        return self.hub.create_claim(ClaimRequest(tenant, "hub", os.getuid() if uid is None else uid, profile))

    def looks(self) -> int:
        """Return how often the audit has looked, at a device with claims or at all."""
        return int(float(re.search(r"^jupyter_vgpu_audit_looks_total (\S+)$", self.metrics(), re.MULTILINE)[1]))

    def metrics(self) -> str:
        """Return what Prometheus gets."""
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.folder / "hub.sock"))
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()
        finally:
            connection.close()

    def ordinal(self, granted: GrantedClaim) -> int:
        """Return the place of a claim's first device among the node's."""
        return next(
            device["index"] for device in self.hub.devices() if device["uuid"] == granted.claim["devices"][0]["uuid"]
        )


@contextlib.contextmanager
def an_agent(*options: str, base: str | None = None, board: Path | None = None) -> Iterator[AgentProcess]:
    # Not tmp_path: a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="jvgpu-agent-" if base else "a", dir=base))
    folder.chmod(0o755)
    agent = AgentProcess(folder, *options, board=board)
    try:
        yield agent.start()
    finally:
        agent.close()


@pytest.fixture(scope="module")
def module_agent() -> Iterator[AgentProcess]:
    with an_agent() as agent:
        yield agent


@pytest.fixture
def agent(module_agent: AgentProcess) -> Iterator[AgentProcess]:
    """An agent that lives as long as the module's tests; each test finds it without claims."""
    yield module_agent
    for claim in module_agent.hub.claims():
        module_agent.hub.release_claim(claim["claim"])


@pytest.fixture
def own_agent() -> Iterator[AgentProcess]:
    """An agent that this test may stop or kill."""
    with an_agent() as agent:
        yield agent


@pytest.fixture
def agent_with() -> Callable[..., contextlib.AbstractContextManager[AgentProcess]]:
    return an_agent


@pytest.fixture
def ask() -> Iterator[Callable[[AgentProcess, bytes], Attached | None]]:
    """Send an attach request of any bytes from this process; what comes back is closed after the test."""
    given: list[Attached] = []

    def send(agent: AgentProcess, request: bytes) -> Attached | None:
        with connected(agent.attach_socket) as connection:
            connection.send(request)
            attached = answer_on(connection)
        if attached is not None:
            given.append(attached)
        return attached

    yield send
    for attached in given:
        attached.close()


@pytest.fixture
def attach(ask: Callable[[AgentProcess, bytes], Attached]) -> Callable[[AgentProcess, GrantedClaim], Attached]:
    return lambda agent, granted: ask(agent, request_of(granted.secret))


# A process that attaches, says what it did, holds memory, and waits to be ended.
HOLDER = (
    f"LAYOUT = {LAYOUT}"
    + """
import array, mmap, os, socket, struct, sys, time
path, secret, held, then = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(path)
connection.send(struct.pack("=II64s", 0x4A564750, LAYOUT, secret.encode()))
fds = array.array("i")
reply, rights, _, _ = connection.recvmsg(1024, socket.CMSG_SPACE(8))
fds.frombytes(rights[0][2])
slot = struct.unpack_from("=IIII", reply)[3]
page = mmap.mmap(fds[1], 0)
struct.pack_into("=QQQ", page, 64 + slot * 2112 + 64, held, 0, 7)
if then == "fork" and os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
if then == "exec":
    os.execv(sys.executable, [sys.executable, "-c", os.environ["HOLDER"], path, secret, str(held // 2), "stay"])
if then != "fork":
    os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""
)


@pytest.fixture
def holder() -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    """Start a process that attaches and holds memory; returns it and the process id it printed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        agent: AgentProcess, granted: GrantedClaim, held: int, then: str = "stay"
    ) -> tuple[subprocess.Popen[bytes], int]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(agent.attach_socket), granted.secret, str(held), then],
            stdout=subprocess.PIPE,
            env={**os.environ, "HOLDER": HOLDER},
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class DeviceUser:
    """`device_user.py` as a process: it has a context, and does what it is told."""

    def __init__(self, environment: dict[str, str], ordinal: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("device_user.py")), str(ordinal)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = int(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        """Tell it and do not wait for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def asked(self, line: str) -> str:
        self.tell(line)
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def device_user() -> Iterator[Callable[..., DeviceUser]]:
    """Start a process in a slice; `without` names variables of the slice that it drops, for the machine's `ordinal`."""
    started: list[DeviceUser] = []

    def start(granted: GrantedClaim, without: tuple[str, ...] = (), ordinal: int = 0) -> DeviceUser:
        environment = granted.edits.applied_to(dict(os.environ))
        user = DeviceUser({name: value for name, value in environment.items() if name not in without}, ordinal)
        started.append(user)
        return user

    yield start
    for user in started:
        user.close()
