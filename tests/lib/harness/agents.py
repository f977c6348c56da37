"""A node agent on simulated boards, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from harness.waiting import wait_until
from jupyter_vgpu.client import GrantedClaim, HubClient, UserClient
from jupyter_vgpu.errors import AgentUnreachableError

START_SECONDS = 180.0
ANSWER_SECONDS = 60.0  # for an agent that is there: this machine may be busy with others

_Agent = TypeVar("_Agent", bound="NodeAgent")


class NodeAgent:
    """`jupyter vgpu agent`; may be ended, killed and started again.

    Attributes:
        runtime_dir: Its sockets lie here, so the path has to be short.
        options: What it is told besides.
        log_path: All it says; beside its folder unless said otherwise.
        hub: A client, as a hub has it.
        process: `None` = it is not there.
    """

    def __init__(
        self, runtime_dir: Path, *options: str, boards: str | Path = "a100-80", log_path: Path | None = None
    ) -> None:
        """Say where and how; nothing is started yet.

        Args:
            runtime_dir: Is made if it is not there.
            options: See the attribute.
            boards: Simulated boards of the agent's own, by name; or the state file of boards that outlive it.
            log_path: See the attribute.
        """
        self.runtime_dir = runtime_dir
        self.options = options
        self.boards = boards
        self.log_path = log_path or runtime_dir.with_name(f"{runtime_dir.name}.log")
        self.hub = HubClient(runtime_dir, timeout_seconds=ANSWER_SECONDS)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self: _Agent) -> _Agent:
        """Start it, and wait until it answers."""
        own = ("--simulate", self.boards) if isinstance(self.boards, str) else ()
        shared = {} if isinstance(self.boards, str) else {"JUPYTER_VGPU_SIM": str(self.boards)}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--runtime-dir", str(self.runtime_dir)),
                    *(*own, *self.options),
                ],
                env={**os.environ, **shared},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self.answers, lambda: f"the agent answers; its log:\n{self.log}", START_SECONDS)
        return self

    def answers(self) -> bool:
        """Return whether it does, and not one before it; fail if it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"the agent ended:\n{self.log}"
        try:
            return self.hub.health()["pid"] == self.process.pid
        except AgentUnreachableError:
            return False

    @property
    def pid(self) -> int:
        """The process of an agent that is there."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """All that it has said so far."""
        return self.log_path.read_text(errors="replace")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Return the exit code after signal `number`."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(START_SECONDS)
        self.process = None
        return code

    def revive(self) -> None:
        """Start it if it has ended."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def stop(self) -> None:
        """Let it end, if it is there; a test may have stopped it with a signal."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.end()
        self.process = None

    def user(self, granted: GrantedClaim) -> UserClient:
        """Return a client as the tenant's processes have it."""
        env = granted.edits.env
        return UserClient(env["JUPYTER_VGPU_API"], env["JUPYTER_VGPU_SECRET"], timeout_seconds=ANSWER_SECONDS)

    @contextlib.contextmanager
    def running(self: _Agent) -> Iterator[_Agent]:
        """Run within the context, also where the start fails."""
        try:
            yield self.start()
        finally:
            self.stop()
