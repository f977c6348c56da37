"""No counter of a slice falls while the slice lives, whatever becomes of its processes and parts.

Prometheus takes a counter that falls for one that began again, and adds what it shows once more.
"""

from __future__ import annotations

import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.attach import SLOT_AT, SLOT_BYTES, answer_on, connected, request_of
from harness.waiting import wait_until
from jupyter_vgpu.agent import tenant as tenant_module
from jupyter_vgpu.agent.figures import NS
from jupyter_vgpu.agent.subslices import added_seconds
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.client import GrantedClaim
from jupyter_vgpu.model import Claim, Grant
from jupyter_vgpu.pages import LAYOUT

# Of USAGE's devices: what goes up and down, or is of the last second. Whatever else there is, is a counter.
GAUGES = {
    "memory_used_bytes",
    "memory_limit_bytes",
    "memory_overhead_bytes",
    "memory_drift_bytes",
    "launches_per_second",
    "gpu_time_fraction",
    "waiting_fraction",
    "sm_usage",
    "governed.entitled",
    "guaranteed.least",
    "guaranteed.in_a_row",
    "pressure.neighbours",
    "pressure.gpu_time_fraction",
}
GIB = 1 << 30
RENEWAL = b"RENEWAL\0"

# A process that attaches and has that part of the device's time, of which five milliseconds are always under way, with
# a thread that stands at the gate.
WORKER = f"""
import array, mmap, socket, struct, sys, time
path, secret, part = sys.argv[1], sys.argv[2], float(sys.argv[3])
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(path)
connection.send(struct.pack("=II64s", 0x4A564750, {LAYOUT}, secret.encode()))
fds = array.array("i")
reply, rights, _, _ = connection.recvmsg(1024, socket.CMSG_SPACE(8))
fds.frombytes(rights[0][2])
page = mmap.mmap(fds[1], 0)
at = {SLOT_AT} + struct.unpack_from("=IIII", reply)[3] * {SLOT_BYTES} + 64
begun = time.monotonic_ns()
while True:
    passed = time.monotonic_ns() - begun
    busy = int(passed * part)
    launches = passed // 1000000
    # held, pending, launches, waited, busy, refused, done, gated, throttled, sm, allocations, blocked
    struct.pack_into(
        "=11QI", page, at, 0, 0, launches, passed // 10, busy, 0, max(0, busy - 5000000), passed // 20, launches // 2,
        busy // 2, 0, 1,
    )
    time.sleep(0.01)
"""


@pytest.fixture
def work(agent: Any) -> Iterator[Callable[[str, float], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(secret: str, part: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WORKER, str(agent.attach_socket), secret, str(part)]
        started.append(subprocess.Popen(command))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def in_usage(usage: Any) -> dict[str, float]:
    """Return every counter of a slice's first device by its name, those of the governor as `governed.NAME`."""
    found: dict[str, Any] = {}
    for name, figure in usage["devices"][0].items():
        inner = (
            {f"{name}.{key}": value for key, value in figure.items()} if isinstance(figure, dict) else {name: figure}
        )
        found |= {key: value for key, value in inner.items() if not isinstance(value, (bool, str))}
    return {name: value for name, value in found.items() if name not in GAUGES}


def in_metrics(text: str, claim: str) -> dict[str, float]:
    """Return every counter of a claim, and of its processes, by its name and labels."""
    counters = set(re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE))
    samples = re.findall(r"^(\w+)(\{[^}]*\}) (\S+)$", text, re.MULTILINE)
    return {name + labels: float(value) for name, labels, value in samples if name in counters and claim in labels}


def counters(agent: Any, granted: GrantedClaim) -> dict[str, float]:
    claim = granted.claim["claim"]
    return in_usage(agent.user(granted).usage()) | in_metrics(agent.metrics(), claim)


def fallen(before: dict[str, float], after: dict[str, float]) -> dict[str, tuple[float, float | None]]:
    """Return the counters that are less than before, or gone; those of single processes end with them."""
    return {
        name: (value, after.get(name))
        for name, value in before.items()
        if after.get(name, -1.0 if "pid=" not in name else value) < value
    }


@given(st.integers(0, 2 * 10**15), st.integers(0, 2 * 10**15))
def test_seconds_of_a_slice_and_its_part_add_up_to_what_one_counter_of_both_says(whole_ns: int, part_ns: int) -> None:
    """Catches a bug where the sum was a unit in the last place more, and fell once the part counted with the slice."""
    assert added_seconds(whole_ns / NS, part_ns / NS) == (whole_ns + part_ns) / NS


def test_no_counter_of_a_slice_falls_when_its_processes_and_parts_end(
    agent: Any, work: Callable[[str, float], subprocess.Popen[bytes]]
) -> None:
    """Catches a bug where windows, overruns and violations of a notebook in a part of a slice were lost with it."""
    granted = agent.claim(share="1/2", memory="20GiB", guarantee="2/5")
    beside = agent.claim("bob", share="1/2", memory="20GiB")
    user = agent.user(granted)
    part = user.create_subslice("a notebook", 10 * GIB)
    in_rest, in_part = work(granted.secret, 0.1), work(part.secret, 0.1)
    work(beside.secret, 0.7)
    claim = part.subslice["claim"]
    wait_until(lambda: all(in_metrics(agent.metrics(), claim).values()), "all that is counted has happened in the part")
    wait_until(lambda: all(counters(agent, granted).values()), "and in the slice")
    falls = []

    def look(known: dict[str, float]) -> dict[str, float]:
        now = counters(agent, granted)
        falls.append(fallen(known, now))
        return now

    known = look({})
    user.release_subslice(claim)
    known = look(known)
    in_part.kill()
    wait_until(lambda: claim not in agent.metrics(), "the part is gone")
    known = look(known)
    in_rest.kill()
    wait_until(lambda: not user.usage()["processes"], "the last process is gone")
    known = look(known)

    assert falls == [{}, {}, {}, {}]
    assert {"launches", "gpu_time_seconds", "governed.windows", "guaranteed.violations"} <= known.keys()
    assert any(name.startswith("jupyter_vgpu_claim_windows_total") for name in known)


def test_no_counter_falls_where_a_process_writes_less_than_it_did(agent: Any, attach: Callable[..., Any]) -> None:
    granted = agent.claim()
    attached = attach(agent, granted)
    with mmap.mmap(attached.usage_fd, 0) as page:
        at = SLOT_AT + attached.slot * SLOT_BYTES + 64
        struct.pack_into("=11Q", page, at, 0, 0, *[20_000] * 9)
        before = counters(agent, granted)

        struct.pack_into("=11Q", page, at, 0, 0, *[10_000] * 9)
        after = counters(agent, granted)

    assert before["launches"] == 20_000
    assert sum("pid=" in name for name in before) >= 5
    assert fallen(before, after) == {}


@contextmanager
def attached_since(began_at: float) -> Iterator[tuple[Tenant, mmap.mmap]]:
    """A tenant of a claim made at `began_at`, this process attached to it, and the page that it writes."""
    grant = Grant("GPU-00000000-0000-0000-0000-000000000001", 20 << 30, 250_000, 1_000_000)
    claim = Claim("c", "alice", "hub", os.getuid(), "p", "intercept", (grant,), "bound", began_at, "0" * 64)
    tenant = Tenant(claim, {})
    try:
        process = tenant.attach(os.getpid(), -1, began_at)
        assert process is not None
        with mmap.mmap(tenant.pages.usage_fd, 0) as page:
            yield tenant, page
    finally:
        tenant.close()


def test_what_was_cut_to_the_claims_age_is_told_in_full_once_it_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a figure that stood as it was cut for as long as the process did nothing more.

    What it had before then showed as time of its next launches: launches of two seconds seemed to cost an eighth more.
    """
    began_at = time.time()
    with attached_since(began_at) as (tenant, page):
        struct.pack_into("=QQQQQ", page, SLOT_AT + 64, 0, 0, 5, 0, 100 * 10**9)
        young = tenant.totals(0).busy_ns

        monkeypatch.setattr(tenant_module.time, "time", lambda: began_at + 60)
        older = tenant.totals(0).busy_ns
        monkeypatch.setattr(tenant_module.time, "time", lambda: began_at + 3600)
        old = tenant.totals(0).busy_ns

    assert young < 10 * 10**9
    assert (older, old) == (60 * 10**9, 100 * 10**9)


def test_no_counter_falls_where_the_wall_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is believed to have had more time than the claim has existed, and that is less by such a clock."""
    began_at = time.time() - 3600
    with attached_since(began_at) as (tenant, page):
        half_an_hour_ns = 1800 * 10**9
        struct.pack_into("=QQQQQ", page, SLOT_AT + 64, 0, 0, 5, half_an_hour_ns, half_an_hour_ns)
        before = tenant.totals(0)

        monkeypatch.setattr(tenant_module.time, "time", lambda: began_at)
        struct.pack_into("=QQQ", page, SLOT_AT + 64, 0, 0, 6)
        after = tenant.totals(0)

    assert (before.launches, before.busy_ns) == (5, half_an_hour_ns)
    assert (after.launches, after.busy_ns, after.waited_ns) == (6, half_an_hour_ns, half_an_hour_ns)


def test_what_a_process_brings_from_an_earlier_agent_is_not_counted_again(agent: Any) -> None:
    """Catches a bug where an hour of GPU time was in the hub's ledger twice after a restart of the agent."""
    granted = agent.claim()
    user = agent.user(granted)
    with connected(agent.attach_socket) as connection:
        connection.send(request_of(granted.secret) + RENEWAL)
        attached = answer_on(connection)
        assert attached is not None
        attached.write_use(launches=1000, busy=2_000, waited=3_000)
        (bringing,) = user.usage()["devices"]
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    try:
        (brought,) = user.usage()["devices"]

        attached.write_use(launches=1003, busy=7_000, waited=10_000)

        (device,), (process,) = (user.usage()[name] for name in ("devices", "processes"))
        assert (bringing["launches"], brought["launches"], device["launches"]) == (0, 0, 3)
        assert (device["gpu_time_seconds"], device["waited_seconds"]) == (5e-6, 7e-6)
        assert process["devices"][0]["launches"] == 1003
    finally:
        attached.close()
