"""Anything at all on the attach socket, and in a usage page as the agent reads it."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_vgpu.agent.contradiction import PageWatch
from jupyter_vgpu.agent.tenant import Tenant
from jupyter_vgpu.model import Claim, Device, Grant
from jupyter_vgpu.pages import LAYOUT

GIB = 1 << 30
UUIDS = ("GPU-d35acab6-c5d2-5f98-8ea6-6e43bcb00c79", "GPU-0f1dd1c6-cccc-5c08-834c-537613918c28")
TOTAL_BYTES = 80 * GIB
MAGIC, RENEWAL = 0x4A564750, b"RENEWAL\0"  # native/include/jvgpu/pages.h, native/src/exchange.c
FUZZ = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# --- the attach socket --------------------------------------------------------------------------------------------

right_head = struct.pack("=II", MAGIC, LAYOUT)
requests = st.one_of(
    st.binary(max_size=300),
    st.binary(min_size=72, max_size=72),
    st.builds(lambda rest: right_head + rest, st.binary(min_size=60, max_size=80)),
    st.builds(
        lambda digits, tail: right_head + digits.encode() + tail,
        st.text("0123456789abcdef", min_size=64, max_size=64),
        st.sampled_from([b"", RENEWAL, RENEWAL[:-1], RENEWAL + b"\0"]),
    ),
    st.builds(lambda size: right_head + b"a" * size, st.integers(0, 65_536)),
)


def descriptors_of(agent: Any) -> int:
    return len(list(Path(f"/proc/{agent.pid}/fd").iterdir()))


def sent(agent: Any, messages: list[bytes], with_descriptors: bool) -> None:
    """Send messages on one connection and let the agent answer or not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(60)
        connection.connect(str(agent.attach_socket))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=ii", 0, 1))] if with_descriptors else []
        # It may have answered the first message, and closed, before the next is sent.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for message in messages:
                connection.sendmsg([message], rights)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1024):
                pass


@FUZZ
@given(messages=st.lists(requests, min_size=1, max_size=3), with_descriptors=st.booleans())
def test_no_message_gets_in_or_harms_the_agent(agent: Any, messages: list[bytes], with_descriptors: bool) -> None:
    sent(agent, messages, with_descriptors)

    assert agent.hub.health()["pid"] == agent.pid
    assert agent.hub.claims() == []


def test_that_much_nonsense_took_one_line_of_log_and_no_descriptor(agent: Any) -> None:
    held = descriptors_of(agent)
    for number in range(200):
        sent(agent, [bytes([number]) * (number + 1)], with_descriptors=number % 2 == 0)

    assert "Traceback" not in agent.log
    assert agent.log.count(f"attach: uid {os.getuid()}, process") <= agent.minutes, "one line per offender per minute"
    deadline = time.monotonic() + 60
    while descriptors_of(agent) > held:
        assert time.monotonic() < deadline, "descriptors that were sent along are not kept"
        time.sleep(0.05)


def test_who_says_that_it_moves_and_never_has_is_not_waited_for(agent: Any, attach: Callable[..., Any]) -> None:
    """A renewal, again and again, on connections that are never finished."""
    granted = agent.claim()
    attached = attach(agent, granted)
    attached.write_use(held=5 << 20)
    request = struct.pack("=II64s", MAGIC, LAYOUT, granted.secret.encode()) + RENEWAL
    kept = []
    for _ in range(50):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(60)
        connection.connect(str(agent.attach_socket))
        connection.send(request)
        reply, rights, _, _ = connection.recvmsg(1024, 64)
        for fd in struct.unpack("=ii", rights[0][2]):
            os.close(fd)
        assert struct.unpack_from("=IIII", reply)[2:] == (0, attached.slot), "it has the slot that it had"
        kept.append(connection)

    usage = agent.hub.usage(granted.claim["claim"])
    for connection in kept:
        connection.close()

    assert [process["devices"][0]["memory_bytes"] for process in usage["processes"]] == [5 << 20]


# --- the usage page -----------------------------------------------------------------------------------------------

WORDS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from(
        [0, 1, 2**31, 2**32 - 1, 2**50, 2**50 + 1, 2**63 - 1, 2**63, 2**64 - 1, TOTAL_BYTES, TOTAL_BYTES + 1]
    ),
)


@pytest.fixture(scope="module")
def tenant() -> Iterator[Tenant]:
    grants = tuple(Grant(uuid, 20 * GIB, 250_000, 1_000_000) for uuid in UUIDS)
    devices = {
        uuid: Device(uuid, "board", index, TOTAL_BYTES, 108, "8.0", True, "580") for index, uuid in enumerate(UUIDS)
    }
    claim = Claim("c", "alice", "hub", os.getuid(), "p", "intercept", grants, "bound", time.time(), "0" * 64)
    tenant = Tenant(claim, devices)
    assert tenant.attach(os.getpid(), -1, time.time()) and tenant.attach(os.getppid(), -1, time.time())
    yield tenant
    tenant.pages.close()


def numbers_of(figure: Any) -> list[float]:
    return [value for value in vars(figure).values() if isinstance(value, int | float)]


@FUZZ
@given(
    blocks=st.lists(st.tuples(st.integers(0, 8000), st.lists(WORDS, min_size=1, max_size=40)), min_size=1, max_size=6),
    used=st.one_of(st.none(), st.integers(0, TOTAL_BYTES)),
)
def test_whatever_stands_in_a_page_is_read_as_what_could_be(
    tenant: Tenant, blocks: list[tuple[int, list[int]]], used: int | None
) -> None:
    with mmap.mmap(tenant.pages.usage_fd, 0) as page:
        for at, words in blocks:
            struct.pack_into(f"={len(words)}Q", page, 8 * (at % (4096 - len(words))), *words)

    tenant.sample(time.monotonic())
    for index in range(2):
        held = tenant.weigh(index, {os.getpid(): used, 4_000_000: 1}, ())
        figures: list[float] = [*numbers_of(tenant.totals(index)), *numbers_of(tenant.rates(index))]
        figures += [tenant.overhead_bytes(index), *(each.most_bytes for each in held.values())]
        for process in tenant.processes.values():
            reading = tenant.reading(process, index)
            figures += numbers_of(reading)
            assert reading.held_bytes <= TOTAL_BYTES and reading.pending_bytes <= TOTAL_BYTES
            said = PageWatch().look(used, held[process.pid], reading.launches, reading.held_bytes, TOTAL_BYTES)
            assert said is None or isinstance(said, str)
        assert 0 <= tenant.memory_bytes(index) <= TOTAL_BYTES
        assert 0 <= tenant.rates(index).gpu_time_fraction <= 1 and 0 <= tenant.rates(index).waiting_fraction <= 1
        assert all(math.isfinite(figure) and 0 <= figure < 2**64 for figure in figures)
    assert all(0 <= grant.memory_bytes <= 20 * GIB for grant in tenant.held()), "it takes no room from others"
