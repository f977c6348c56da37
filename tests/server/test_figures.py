"""The figures of a real slice on a simulated board, as the browser gets them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_vgpu.client import GrantedClaim

Server = Any
GIB = 1 << 30

# Holds 3 GiB and has launched nothing, until its standard input ends.
HOLD = """
import sys
from cuda.bindings import driver
for result in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(0)):
    assert result[0] == 0, result
driver.cuCtxSetCurrent(result[1])
error, _ = driver.cuMemAlloc(3 << 30)
assert error == 0, error
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(quarter: GrantedClaim) -> Iterator[subprocess.Popen[str]]:
    """Return a process of the tenant that holds 3 GiB."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=quarter.edits.applied_to(dict(os.environ)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    process.wait(60)


def test_the_slice_is_what_was_claimed(server: Server, quarter: GrantedClaim) -> None:
    answer = server.get("jupyter-vgpu/slice")

    assert (answer["state"], answer["message"]) == ("ok", "")
    assert answer["slice"]["claim"] == quarter.claim["claim"]
    assert answer["slice"]["profile"] == "1/4 GPU"
    [device] = answer["slice"]["devices"]
    assert device["simulated"] is True
    assert device["memory_limit_bytes"] == quarter.claim["devices"][0]["memory_bytes"]
    assert device["memory_limit_bytes"] == device["total_bytes"] // 4


def test_the_usage_is_what_the_users_processes_hold(server: Server, holder: subprocess.Popen[str]) -> None:
    usage = server.get("jupyter-vgpu/usage")["usage"]

    [process] = usage["processes"]
    assert process["pid"] == holder.pid
    assert 3 * GIB <= process["devices"][0]["memory_bytes"] < 4 * GIB
    assert 3 * GIB <= usage["devices"][0]["memory_used_bytes"] < 4 * GIB


def test_the_usage_falls_when_a_process_ends(server: Server, holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None
    assert server.get("jupyter-vgpu/usage")["usage"]["processes"] != []

    holder.stdin.close()
    holder.wait(60)

    deadline = time.monotonic() + 60
    while (usage := server.get("jupyter-vgpu/usage")["usage"])["processes"]:
        assert time.monotonic() < deadline, usage["processes"]
    assert usage["devices"][0]["memory_used_bytes"] == 0
