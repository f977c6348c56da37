"""How soon does the agent know? Times that tests do not judge, printed for the reader, on a quiet machine.

    python benchmarks/detection.py --times 20

A death: from the kill until the memory is free in the agent's figures. A bypass: from the first call of a process
without the library until its event. An attach: one request and its answer.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_vgpu.client import GrantedClaim, HubClient
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

DEVICE_USER = Path(__file__).resolve().parents[1] / "tests" / "agent" / "device_user.py"
GIB = 1 << 30
PATIENCE_SECONDS = 60.0
MAGIC, LAYOUT = 0x4A564750, 2  # native/include/jvgpu/pages.h


def waited(holds: Callable[[], Any]) -> float:
    """Return after how many seconds `holds` held."""
    begun = time.perf_counter()
    while not holds():
        if time.perf_counter() - begun > PATIENCE_SECONDS:
            raise SystemExit(f"not within {PATIENCE_SECONDS:g} s")
        time.sleep(0.001)
    return time.perf_counter() - begun


def user_of(granted: GrantedClaim, has_library: bool) -> subprocess.Popen[str]:
    """Return a program that has begun to use the device."""
    environment = granted.edits.applied_to(dict(os.environ))
    if not has_library:
        del environment["LD_PRELOAD"]
    command = [sys.executable, str(DEVICE_USER), "0"]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def one_death(hub: HubClient, granted: GrantedClaim) -> float:
    """Return how long a dead process's memory stays counted."""
    process = user_of(granted, True)
    process.kill()
    seconds = waited(lambda: hub.usage(granted.claim["claim"])["devices"][0]["memory_used_bytes"] == 0)
    process.communicate()
    return seconds


def one_bypass(hub: HubClient, granted: GrantedClaim) -> float:
    """Return how long a process without the library goes unnoticed."""
    process = user_of(granted, False)
    seconds = waited(lambda: any(each["pid"] == process.pid for each in hub.events(granted.claim["claim"])))
    process.kill()
    process.communicate()
    return seconds


def one_attach(path: str, granted: GrantedClaim) -> float:
    """Return how long an attach takes."""
    begun = time.perf_counter()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        connection.send(struct.pack("=II64s", MAGIC, LAYOUT, granted.secret.encode()))
        connection.recv(1024)
    return time.perf_counter() - begun


def said(what: str, seconds: list[float]) -> str:
    """Return one line about a row of times."""
    middle, most = statistics.median(seconds), max(seconds)
    return f"{what}: {middle * 1e3:.1f} ms in the middle, {most * 1e3:.1f} ms at most, of {len(seconds)}"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description="How soon the agent knows of deaths and of processes without the library."
    )
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory(prefix="d") as folder:
        command = [sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--simulate", "a100-80", "--runtime-dir", folder]
        agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        hub = HubClient(Path(folder))

        def answers() -> bool:
            try:
                return bool(hub.health())
            except AgentUnreachableError:
                return False

        try:
            waited(answers)
            profile = Profile("detection", 250_000, 1_000_000, Memory(None, 10 * GIB))
            granted = hub.create_claim(ClaimRequest("detection", "bench", os.getuid(), profile, "auto"))
            path = f"{folder}/attach.sock"
            print(said("attach", [one_attach(path, granted) for _ in range(times)]))
            print(said("memory of a killed process is free", [one_death(hub, granted) for _ in range(times)]))
            print(said("a process without the library is noted", [one_bypass(hub, granted) for _ in range(times)]))
        finally:
            agent.terminate()
            agent.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
