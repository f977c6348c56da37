"""Whatever dies, the others go on: random kills and many starts at once. Simulated board."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("JVGPU_STRESS_KILLS", "300"))
WORKER = """
import sys, time, random
from cuda.bindings import driver as cu
assert cu.cuInit(0)[0] == 0
assert cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])[0] == 0
forever, slowest = sys.argv[1] == "forever", 0.0
begun = time.monotonic()
while True:
    asked = time.monotonic()
    answer = cu.cuMemAlloc(random.randrange(1 << 10, 64 << 20))
    if answer[0] == 0:
        assert cu.cuMemFree(answer[1])[0] == 0
    slowest = max(slowest, time.monotonic() - asked)
    if not forever and time.monotonic() - begun > float(sys.argv[1]):
        break
print(slowest, flush=True)
"""


@pytest.fixture
def slice_environment(tmp_path: Path) -> Iterator[tuple[dict[str, str], HubClient, str]]:
    """Return environment, agent and claim of one slice of 20 GiB."""
    runtime_dir = tmp_path / "agent"
    agent = subprocess.Popen(
        [sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--simulate", "a100-80", "--runtime-dir", str(runtime_dir)],
        stderr=subprocess.DEVNULL,
    )
    hub = HubClient(runtime_dir)
    deadline = time.monotonic() + 30
    while True:
        try:
            hub.health()
            break
        except AgentUnreachableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    profile = Profile("stress", 250_000, 1_000_000, Memory(None, 20 << 30))
    granted = hub.create_claim(ClaimRequest("stress", "test", os.getuid(), profile, "auto"))
    edits = granted.edits
    environment = {
        **os.environ,
        **edits.env,
        "LD_PRELOAD": ":".join(edits.preload),
        "LD_LIBRARY_PATH": ":".join(edits.library_path),
    }
    yield environment, hub, granted.claim["claim"]
    agent.send_signal(signal.SIGTERM)
    agent.wait(30)


def test_random_kills_beside_neighbours_at_work_leave_nothing_and_stop_nobody(
    slice_environment: tuple[dict[str, str], HubClient, str],
) -> None:
    """Catches a bug where a lock left behind by SIGKILL hung the others for minutes (CASES 24)."""
    environment, hub, claim = slice_environment
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)

    def start(how_long: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", WORKER, how_long], env=environment, stdout=subprocess.PIPE, text=True
        )

    neighbours = [start(str(KILLS * 0.12 + 5)) for _ in range(4)]
    victims: list[subprocess.Popen[str]] = []
    for _ in range(KILLS):
        victims.append(start("forever"))
        while len(victims) > 4:
            victim = victims.pop(dice.randrange(len(victims)))
            victim.kill()
            victim.communicate()
        time.sleep(dice.uniform(0, 0.05))
    for victim in victims:
        victim.kill()
        victim.communicate()
    slowest = [float(neighbour.communicate(timeout=300)[0]) for neighbour in neighbours]
    deadline = time.monotonic() + 5
    while hub.usage(claim)["processes"] and time.monotonic() < deadline:
        time.sleep(0.05)
    usage = hub.usage(claim)

    assert max(slowest) < 2, f"seed {seed}"
    assert usage["processes"] == [], f"seed {seed}"
    assert usage["devices"][0]["memory_used_bytes"] == 0, f"seed {seed}"


def test_a_hundred_programs_start_at_once(slice_environment: tuple[dict[str, str], HubClient, str]) -> None:
    environment, hub, claim = slice_environment
    program = """
import ctypes, sys, time
driver = ctypes.CDLL("libcuda.so.1")
sys.stdin.readline()
begun = time.monotonic(); result = driver.cuInit(0); print(result, time.monotonic() - begun, flush=True)
sys.stdin.readline()
"""
    programs = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(100)
    ]
    for each in programs:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    answers = [each.stdout.readline().split() for each in programs if each.stdout]
    attached = len(hub.usage(claim)["processes"])
    for each in programs:
        each.communicate("\n")

    assert [answer[0] for answer in answers] == ["0"] * 100
    assert attached == 100
    assert max(float(answer[1]) for answer in answers) < 5
