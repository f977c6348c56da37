"""The hub of the demo as a process: start it, wait until it answers, stop it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from leftovers import end_with_parent

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.errors import VGPUError

START_SECONDS = 120.0
STOP_SECONDS = 40.0
LINES_SHOWN_ON_FAILURE = 30
# What the surroundings may set that would let the demo read or write files outside its folder.
NOT_PASSED_ON = ("JUPYTER", "JUPYTERHUB", "IPYTHON", "XDG", "CONFIGPROXY", "PYTHON")


class DemoError(Exception):
    """The demo cannot run; the message says why and what would help."""


class HubProcess:
    """JupyterHub with proxy and agent, in a session of its own so that Ctrl-C reaches only the demo."""

    def __init__(self, folder: Path, port: int, password: str, runtime_dir: Path, board: str) -> None:
        """Start it.

        Args:
            folder: Where it keeps its files; exists.
            port: Where browsers come in, on the loopback interface.
            password: For every user.
            runtime_dir: The agent's folder for its sockets; exists.
            board: Simulated board; empty = the machine's GPU.
        """
        self._url = f"http://127.0.0.1:{port}/hub/health"
        self._agent = HubClient(runtime_dir)
        self._log = folder / "hub.log"
        hub_port, proxy_port = _free_ports(2)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "--config", Path(__file__).with_name("jupyterhub_config.py")],
                cwd=folder,
                env={
                    **_surroundings(),
                    "HOME": str(folder / "home"),
                    "TMPDIR": str(folder / "tmp"),
                    "JUPYTER_VGPU_AGENT": str(runtime_dir),
                    "JUPYTER_VGPU_DEMO_BOARD": board,
                    "JUPYTER_VGPU_DEMO_DIR": str(folder),
                    "JUPYTER_VGPU_DEMO_PASSWORD": password,
                    "JUPYTER_VGPU_DEMO_PORT": str(port),
                    "JUPYTER_VGPU_DEMO_HUB_PORT": str(hub_port),
                    "JUPYTER_VGPU_DEMO_PROXY_PORT": str(proxy_port),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def wait_until_ready(self, stop: threading.Event) -> bool:
        """Wait for the hub, through its proxy, and for the agent.

        Returns:
            True when both answer, false when `stop` was set meanwhile.

        Raises:
            DemoError: The hub ended, or one of the two did not answer in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while not stop.wait(0.2):
            self.check()
            try:
                with urllib.request.urlopen(self._url, timeout=2):
                    self._agent.health()
                return True
            except (OSError, VGPUError) as error:
                if time.monotonic() > deadline:
                    raise DemoError(f"not ready after {START_SECONDS:.0f} s: {error}.{self._last_words()}") from error
        return False

    def check(self) -> None:
        """Do nothing while the hub runs.

        Raises:
            DemoError: It has ended.
        """
        if (status := self._process.poll()) is not None:
            raise DemoError(f"the hub ended by itself, with status {status}.{self._last_words()}")

    def stop(self) -> None:
        """Let the hub stop its servers, its agent and its proxy; kill it if that takes too long."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"==> the hub did not stop within {STOP_SECONDS:.0f} s and is killed", file=sys.stderr)
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LINES_SHOWN_ON_FAILURE:]
        return "\n".join([" The end of its log:", *(f"    {line}" for line in lines)])


def _surroundings() -> dict[str, str]:
    # The virtual environment's programs first: the hub looks for its proxy by name.
    scripts = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if name.partition("_")[0] not in NOT_PASSED_ON}
    return {**kept, "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])}


def _free_ports(count: int) -> list[int]:
    # Held together until all are known, so that no two are the same.
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
