"""Run the demo: a JupyterHub with two users and slices of a GPU, until Ctrl-C.

Everything it writes goes below `.demo/` of this checkout, which is removed at the end,
and every process it started is ended, whichever way the demo ends.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
from hub_process import DemoError, HubProcess
from leftovers import adopt_orphans, end_descendants

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.sim import DEFAULT_BOARD, parse_boards

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".demo"
USERS = ("alice", "bob")
NOTEBOOK = "try-your-slice.ipynb"
OTHER_BOARD = "make demo DEMO_BOARD=h200 for another"
# source: unix(7), sun_path. The agent's longest socket name is attach.sock.
LONGEST_RUNTIME_DIR = 107 - len("/attach.sock")


def main() -> int:
    """Return the exit status: 0 after Ctrl-C, 1 with a message if the demo could not run."""
    parser = argparse.ArgumentParser(prog="make demo", description="Run a JupyterHub with slices of a GPU.")
    parser.add_argument("--port", default="8000", help="port on 127.0.0.1 (default 8000)")
    parser.add_argument("--board", default="", help="take this simulated board, even where there is a GPU")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        port = checked_port(options.port)
        if options.board:
            parse_boards(options.board, "DEMO_BOARD")
        with only_demo_of_this_checkout():
            run(port, options.board, stop)
    except (DemoError, BadValueError) as error:
        print(f"make demo: {error}", file=sys.stderr)
        return 1
    print("==> the demo has ended; nothing is left behind")
    return 0


def run(port: int, board: str, stop: threading.Event) -> None:
    """Run the hub until `stop` is set, then remove every trace.

    Args:
        port: Where browsers come in, on the loopback interface.
        board: Simulated board; empty = the machine's GPU, or the default board where there is none.
        stop: Set when the demo is to end.

    Raises:
        DemoError: The hub did not come up, or ended by itself.
    """
    adopt_orphans()
    password = secrets.token_urlsafe(6)
    if board:
        print(f"==> the demo runs on a simulated board, as asked: {board}")
    else:
        board = board_for_this_machine()
    runtime_dir = prepare_folder()
    try:
        print("==> starting hub, proxy and agent", flush=True)
        hub = HubProcess(FOLDER, port, password, runtime_dir, board)
        try:
            if hub.wait_until_ready(stop):
                print(welcome(port, password), flush=True)
            while not stop.wait(0.5):
                hub.check()
            print("\n==> stopping servers, agent, proxy and hub", flush=True)
        finally:
            hub.stop()
    finally:
        end_descendants()
        shutil.rmtree(runtime_dir, ignore_errors=True)
        shutil.rmtree(FOLDER, ignore_errors=True)


def checked_port(text: str) -> int:
    """Return the port if it is one and is free.

    Raises:
        DemoError: It is neither.
    """
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise DemoError(f"DEMO_PORT: {text!r} is not allowed; a port number from 1 to 65535 is, as in DEMO_PORT=8888")
    port = int(text)
    try:
        # What a listener of the hub's proxy does too: a port in TIME_WAIT is free.
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise DemoError(
            f"port {port} on 127.0.0.1 cannot be used ({error.strerror}); "
            f"choose another: make demo DEMO_PORT={port + 1 if 1024 <= port < 65535 else 8000}"
        ) from error
    return port


@contextmanager
def only_demo_of_this_checkout() -> Iterator[None]:
    """Hold a lock on this very file, which leaves no lock file behind.

    Raises:
        DemoError: Another demo of this checkout runs.
    """
    with Path(__file__).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoError(
                "a demo of this checkout is running already; end it first, with Ctrl-C where it runs"
            ) from error
        yield


def board_for_this_machine() -> str:
    """Return the simulated board to use, empty if there is a real one; say which it is."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        print(f"==> there is no NVIDIA driver on this machine ({error})")
        print(f"==> the demo runs on a simulated {DEFAULT_BOARD} board instead ({OTHER_BOARD})")
        return DEFAULT_BOARD
    try:
        count = pynvml.nvmlDeviceGetCount()
        names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    finally:
        pynvml.nvmlShutdown()
    if not names:
        print("==> the NVIDIA driver knows no device")
        print(f"==> the demo runs on a simulated {DEFAULT_BOARD} board instead ({OTHER_BOARD})")
        return DEFAULT_BOARD
    print(f"==> the demo runs on this machine's {', '.join(names)}")
    return ""


def prepare_folder() -> Path:
    """Lay out the demo's folder afresh, with a home and a notebook for each user.

    Returns:
        The folder for the agent's sockets: in the demo's folder, or in the system's for temporary files if the path
        to the checkout is too long for a socket.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("home", "tmp", "agent"):
        (FOLDER / name).mkdir(parents=True)
    FOLDER.chmod(0o700)
    for user in USERS:
        home = FOLDER / "users" / user
        home.mkdir(parents=True)
        shutil.copy(HERE / NOTEBOOK, home)
    runtime_dir = FOLDER / "agent"
    if len(os.fsencode(runtime_dir)) > LONGEST_RUNTIME_DIR:
        return Path(tempfile.mkdtemp(prefix="jupyter-vgpu-demo-"))
    return runtime_dir


def welcome(port: int, password: str) -> str:
    """Return what a newcomer needs to know once the hub runs."""
    return f"""
    Open        http://127.0.0.1:{port}
    Log in as   {" or ".join(USERS)}
    Password    {password}
{_from_afar(port)}
    Pick a slice, open {NOTEBOOK}, choose Run > Run All Cells, and watch the GPU tab on the right.
    Demo, not isolated: hub, agent and users run as one host user here.

    Ctrl-C ends the demo and removes all traces.
"""


def _from_afar(port: int) -> str:
    # Whoever came by ssh has the browser elsewhere, and the demo listens on this machine's loopback interface alone.
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) != 4:
        return ""
    target = f"{os.environ.get('USER', 'YOU')}@{connection[2]}"
    return f"\n    First, where your browser is:   ssh -N -L {port}:127.0.0.1:{port} {target}\n"


if __name__ == "__main__":
    sys.exit(main())
