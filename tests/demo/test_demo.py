"""`make demo`: what it says when it cannot run, and that it leaves nothing behind."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.ports import free_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".demo"


def start_demo(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, ROOT / "demo" / "run.py", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    """A demo that is ready."""
    process = start_demo("--port", str(free_port()), "--board", "a100-80")
    try:
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C ends the demo" in line:
                break
        else:
            pytest.fail("the demo ended early: " + "".join(said))
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=120)
        shutil.rmtree(FOLDER, ignore_errors=True)  # what a killed one could not remove


def processes_of_the_demo() -> list[psutil.Process]:
    """Return what works below the demo's folder, whoever its parent is."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(str(FOLDER) in word for word in words):
            found.append(process)
    return found


def test_ctrl_c_ends_every_process_and_removes_every_file(demo: subprocess.Popen[str]) -> None:
    assert len(processes_of_the_demo()) >= 2, "hub and agent"

    demo.send_signal(signal.SIGINT)
    said, _ = demo.communicate(timeout=120)

    assert demo.returncode == 0, said
    assert processes_of_the_demo() == []
    assert not FOLDER.exists()


def test_the_hub_ends_also_when_the_demo_is_killed(demo: subprocess.Popen[str]) -> None:
    demo.kill()

    deadline = time.monotonic() + 60
    while processes_of_the_demo() and time.monotonic() < deadline:
        time.sleep(0.2)

    assert processes_of_the_demo() == []


def test_a_second_demo_of_the_same_checkout_is_refused(demo: subprocess.Popen[str]) -> None:
    second = start_demo("--port", str(free_port()))
    said, _ = second.communicate(timeout=120)

    assert second.returncode == 1
    assert "running already" in said
    assert demo.poll() is None


def test_a_port_that_is_taken_is_named_with_another_to_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start_demo("--port", str(port))
        said, _ = process.communicate(timeout=120)

    assert process.returncode == 1
    assert re.search(rf"port {port} .*make demo DEMO_PORT=\d+", said)
    assert not FOLDER.exists()


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "", "80 80", "٨٠٠٠"])
def test_what_is_no_port_is_refused_with_what_is_allowed(text: str) -> None:
    process = start_demo(f"--port={text}")
    said, _ = process.communicate(timeout=120)

    assert process.returncode == 1
    assert f"DEMO_PORT: {text!r} is not allowed" in said


def test_an_unknown_board_is_refused_with_those_that_there_are() -> None:
    process = start_demo("--port", str(free_port()), "--board", "a100-81")
    said, _ = process.communicate(timeout=120)

    assert process.returncode == 1
    assert "a100-81" in said
    assert "a100-80" in said
    assert not FOLDER.exists()
