"""What the agent says of a slice: figures, and how strongly it is enforced, by what it saw."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.attach import SLOT_AT
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.model import Claim, Grant

Ask = Callable[..., Any]

# Attaches through the library, as every program does: by its first call of the driver.
CUDA_PROGRAM = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
count = ctypes.c_int()
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value, flush=True)
time.sleep(600)
"""


@pytest.fixture
def cuda_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(granted: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", CUDA_PROGRAM],
            env=granted.edits.applied_to(dict(os.environ)),
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "1"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def enforced_when(agent: Any, granted: Any, holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + 60
    while not holds(enforced := agent.user(granted).slice()["enforced_by"]):
        assert time.monotonic() < deadline, enforced
        time.sleep(0.02)
    return enforced


def test_before_any_process_nothing_is_verified(agent: Any) -> None:
    granted = agent.claim()

    enforced = enforced_when(agent, granted, lambda enforced: enforced["level"] == "cooperative, audited")

    assert enforced["backend"] == "intercept"
    assert (enforced["verified"], enforced["verified_at"]) == (False, None)


def test_a_process_with_the_library_is_verified(agent: Any, cuda_process: Ask) -> None:
    granted = agent.claim()
    process = cuda_process(granted)

    enforced = enforced_when(agent, granted, lambda enforced: enforced["verified"])

    (shown,) = agent.user(granted).usage()["processes"]
    assert shown["pid"] == process.pid
    assert abs(enforced["verified_at"] - time.time()) < 60


def test_a_process_that_only_speaks_the_protocol_is_not(agent: Any, attach: Ask, cuda_process: Ask) -> None:
    """The level rests on what was seen in the process, not on that it attached."""
    granted = agent.claim()
    cuda_process(granted)
    enforced_when(agent, granted, lambda enforced: enforced["verified"])

    attach(agent, granted)

    enforced = enforced_when(agent, granted, lambda enforced: "without the library" in enforced["note"])
    assert enforced["verified"] is False
    assert str(os.getpid()) in enforced["note"]


def test_a_whole_device_says_that_it_is_one(agent: Any, cuda_process: Ask) -> None:
    granted = agent.claim(backend="whole")
    cuda_process(granted)

    enforced = enforced_when(agent, granted, lambda enforced: enforced["verified"])

    assert (enforced["backend"], enforced["level"]) == ("whole", "whole device")


def test_tenants_with_the_agents_rights_are_not_called_isolated(agent: Any) -> None:
    enforced = agent.user(agent.claim()).slice()["enforced_by"]

    assert enforced["isolated"] is False
    assert "demo, not isolated" in enforced["note"]


def test_figures_follow_the_usage_page(agent: Any, attach: Ask) -> None:
    granted = agent.claim(share="1/4", memory="10GiB")
    attached = attach(agent, granted)

    attached.write_use(held=3 << 30, pending=1 << 30, launches=42, waited=2_000_000, busy=1_000_000)
    usage = agent.user(granted).usage()

    (device,) = usage["devices"]
    assert (device["memory_used_bytes"], device["memory_limit_bytes"], device["launches"]) == (4 << 30, 10 << 30, 42)
    (process,) = usage["processes"]
    assert process["devices"] == [
        {
            "uuid": device["uuid"],
            "memory_bytes": 4 << 30,
            "memory_overhead_bytes": 0,
            "allocations": 0,
            "launches": 42,
            "gpu_time_seconds": 0.001,
            "waited_seconds": 0.002,
            "sm_seconds": 0.0,
            "charged_ahead_seconds": 0.0,
            "throttled_launches": 0,
            "gated_seconds": 0.0,
        }
    ]
    assert (device["gpu_time_seconds"], device["waited_seconds"]) == (0.001, 0.002)
    assert device["memory_overhead_bytes"] == 0
    assert usage == {
        **agent.hub.usage(granted.claim["claim"]),
        "time": usage["time"],
        "enforced_by": usage["enforced_by"],
    }


def test_each_device_has_its_own_figures(agent: Any, attach: Ask) -> None:
    granted = agent.claim(share="1/4", devices=2)
    attached = attach(agent, granted)

    attached.write_use(held=1 << 30, launches=1, device=0)
    attached.write_use(held=2 << 30, launches=2, device=1)
    first, second = agent.user(granted).usage()["devices"]

    assert (first["memory_used_bytes"], first["launches"]) == (1 << 30, 1)
    assert (second["memory_used_bytes"], second["launches"]) == (2 << 30, 2)
    assert [first["uuid"], second["uuid"]] == [device["uuid"] for device in granted.claim["devices"]]


def test_launches_per_second_come_from_two_readings(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    attached = attach(agent, granted)
    at_rest = agent.user(granted).usage()["devices"][0]["launches_per_second"]

    started = time.monotonic_ns()
    moving = 0.0

    def launch() -> bool:
        nonlocal moving
        attached.write_use(launches=1 + (time.monotonic_ns() - started) // 1_000_000)
        moving = agent.user(granted).usage()["devices"][0]["launches_per_second"]
        return moving > 0

    wait_until(launch)

    # A thousand a second by the same clock; a sample may be late by as much as the machine likes.
    assert at_rest == 0
    assert moving > 0


def test_gpu_time_and_waits_have_a_part_of_the_last_second(agent: Any, attach: Ask) -> None:
    granted = agent.claim()
    attached = attach(agent, granted)

    started = time.monotonic_ns()
    device: dict[str, Any] = {}

    def work() -> bool:
        passed = time.monotonic_ns() - started
        attached.write_use(busy=passed // 4, waited=passed // 2)
        (figures,) = agent.user(granted).usage()["devices"]
        device.update(figures)
        return bool(0 < figures["waiting_fraction"] < 1)

    wait_until(work)

    # Whatever the machine's load, both grew by the same clock.
    assert device["waiting_fraction"] == pytest.approx(2 * device["gpu_time_fraction"], abs=0.01)
    assert 0 < device["gpu_time_fraction"] <= 0.5


def test_nobody_has_had_more_time_than_its_claim_has_existed(agent: Any, attach: Ask) -> None:
    granted = agent.claim()

    attach(agent, granted).write_use(busy=2**64 - 1, waited=2**64 - 1)

    (device,) = agent.user(granted).usage()["devices"]
    assert device["gpu_time_seconds"] <= time.time() - granted.claim["created_at"] + 1
    assert device["waited_seconds"] <= time.time() - granted.claim["created_at"] + 1


def test_tenants_are_told_how_many_processes_launch_on_their_device(agent: Any, attach: Ask) -> None:
    one, other = agent.claim("one"), agent.claim("other")
    first, second = attach(agent, one), attach(agent, other)
    assert one.claim["devices"][0]["uuid"] == other.claim["devices"][0]["uuid"]
    assert first.control()["contenders"] == 0

    first.write_use(launches=1)
    wait_until(lambda: second.control()["contenders"] == 1)
    second.write_use(launches=1)
    wait_until(lambda: first.control()["contenders"] == second.control()["contenders"] > 0)
    launches = 1

    def launch() -> bool:
        nonlocal launches
        launches += 1
        first.write_use(launches=launches)
        second.write_use(launches=launches)
        return bool(first.control()["contenders"] == second.control()["contenders"] == 2)

    wait_until(launch)

    # Nobody launches any more.
    wait_until(lambda: first.control()["contenders"] == second.control()["contenders"] == 0)


def test_a_wall_clock_that_is_set_back_hides_nothing_that_was_done() -> None:
    """Catches a bug where no figure was believed that could not be of so short a time as the clock said."""
    an_hour_on = time.time() + 3600
    grant = Grant("GPU-00000000-0000-0000-0000-000000000001", 20 << 30, 250_000, 1_000_000)
    claim = Claim("c", "alice", "hub", os.getuid(), "p", "intercept", (grant,), "bound", an_hour_on, "0" * 64)
    tenant = Tenant(claim, {})
    try:
        process = tenant.attach(os.getpid(), -1, time.time())
        assert process is not None
        with mmap.mmap(tenant.pages.usage_fd, 0) as page:
            struct.pack_into("=QQQQQ", page, SLOT_AT + 64, 0, 0, 5, 2000, 3000)

        reading = tenant.reading(process, 0)

        assert (reading.launches, reading.waited_ns, reading.busy_ns) == (5, 2000, 3000)
    finally:
        tenant.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_figures_are_there_for_prometheus(agent: Any, attach: Ask) -> None:
    granted = agent.claim('ali"ce', share="1/4", memory="10GiB")
    attach(agent, granted).write_use(held=1 << 30, launches=5, waited=4_000_000, busy=2_000_000)

    text = agent.metrics()

    uuid = granted.claim["devices"][0]["uuid"]
    labels = f'claim="{granted.claim["claim"]}",hub="hub",tenant="ali\\"ce",uuid="{uuid}"'
    assert f"jupyter_vgpu_claim_memory_used_bytes{{{labels}}} 1.073741824e+09" in text
    assert f"jupyter_vgpu_claim_launches_total{{{labels}}} 5.0" in text
    assert f"jupyter_vgpu_claim_gpu_time_seconds_total{{{labels}}} 0.002" in text
    assert f"jupyter_vgpu_claim_waited_seconds_total{{{labels}}} 0.004" in text
    labels = f'{labels[: labels.index("tenant=")]}pid="{os.getpid()}",{labels[labels.index("tenant=") :]}'
    assert f"jupyter_vgpu_process_memory_bytes{{{labels}}} 1.073741824e+09" in text
    assert f"jupyter_vgpu_process_launches_total{{{labels}}} 5.0" in text
    assert f"jupyter_vgpu_process_gpu_time_seconds_total{{{labels}}} 0.002" in text
    assert f"jupyter_vgpu_process_waited_seconds_total{{{labels}}} 0.004" in text
    assert f'jupyter_vgpu_device_free_share_ratio{{uuid="{uuid}"}} 0.75' in text
