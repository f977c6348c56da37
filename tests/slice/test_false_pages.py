"""Pages that no sound agent would give: cut short, or of random bytes. A program has no GPU, or goes on; it never dies.

The agent here is a thread of the test, which the library believes as it runs as root, or as the program's own user.
"""

from __future__ import annotations

import array
import os
import random
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.attach import CONTROL_DEVICE, CONTROL_HEAD, LAYOUT, MAGIC, REPLY, SLOT_AT, SLOT_BYTES

SLOTS, DEVICES = 1024, 16
CONTROL_BYTES = CONTROL_HEAD.size + DEVICES * CONTROL_DEVICE.size
USAGE_BYTES = SLOT_AT + SLOTS * SLOT_BYTES
# Magic, layout, state and the number of devices; and of the first device.
HEAD_WORDS, UUID = slice(0, 16), slice(CONTROL_HEAD.size, CONTROL_HEAD.size + 16)
# The last figure but two.
GOVERNOR_AT = CONTROL_HEAD.size - 24
BOUND = 1

# All that a page has a say in, as a program does it; each call may be refused.
PROGRAM = """
import ctypes
signal.alarm(60)
driver = ctypes.CDLL("libcuda.so.1")
context, place, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
say(driver.cuInit(0))
answers = [driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context)]
answers += [driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(MIB)) for _ in range(5)]
answers += [driver.cuModuleLoadData(ctypes.byref(module), b"any text\\0")]
answers += [driver.cuModuleGetFunction(ctypes.byref(function), module, b"sim_busy_100us")]
if answers[-1] == 0:
    begun = time.monotonic()
    answers += [driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None) for _ in range(2)]
    answers += [driver.cuCtxSynchronize()]
    say("held back" if time.monotonic() - begun > 5 else "at once")
say("to its end")
"""


class FalseAgent:
    """Gives everybody the same pages."""

    def __init__(self, folder: Path, control: bytes, usage: bytes, slot: int = 0, has_governor: bool = False) -> None:
        """Listen in `folder`, whose path is short, from now on; a governor looks every tenth of a second."""
        self.path = folder / "false.sock"
        self._pages = [self._made(control), self._made(usage)]
        self._reply = REPLY.pack(MAGIC, LAYOUT, 0, slot, 1, 0, b"")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()
        self._is_over = threading.Event()
        self._governor = threading.Thread(target=self._look if has_governor else self._is_over.wait)
        self._governor.start()

    def _made(self, page: bytes) -> int:
        descriptor = os.memfd_create("false-page")
        os.write(descriptor, page)
        return descriptor

    def _answer(self) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self._pages))]
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(4096):
                    connection.sendmsg([self._reply], rights)

    def _look(self) -> None:
        # At once: a program may launch within a tenth of a second.
        os.pwrite(self._pages[0], struct.pack("=Q", time.monotonic_ns()), GOVERNOR_AT)
        while not self._is_over.wait(0.1):
            os.pwrite(self._pages[0], struct.pack("=Q", time.monotonic_ns()), GOVERNOR_AT)

    def close(self) -> None:
        self._is_over.set()
        self._governor.join()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for descriptor in self._pages:
            os.close(descriptor)


def control(uuid: bytes, gate: int = 0, governor_ns: int = 0) -> bytes:
    """Return a control page of one device with 1 GiB and all of its time."""
    head = CONTROL_HEAD.pack(MAGIC, LAYOUT, BOUND, 1, 1, 1, time.monotonic_ns(), 1, governor_ns, 0, 0)
    device = CONTROL_DEVICE.pack(uuid, 1 << 30, 0, 10**6, 10**6, gate, 1, 10**6, 1, 2, 0)
    return (head + device).ljust(CONTROL_BYTES, b"\0")


def random_but(page: bytes, kept: list[slice], seed: int) -> bytes:
    """Return a page of which only some parts are as they were."""
    noise = bytearray(random.Random(seed).randbytes(len(page)))
    for part in kept:
        noise[part] = page[part]
    return bytes(noise)


@pytest.fixture
def run_under(claim: Callable[..., Any]) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Return a function that runs the program under a false agent with those pages; it is told the device's UUID."""
    held = claim(1 << 30)
    uuid = bytes.fromhex(held.granted.claim["devices"][0]["uuid"].removeprefix("GPU-").replace("-", ""))

    def run(
        make: Callable[[bytes], bytes], usage: bytes, slot: int = 0, has_governor: bool = False
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="f") as folder:
            agent = FalseAgent(Path(folder), make(uuid), usage, slot, has_governor)
            try:
                done: subprocess.CompletedProcess[str] = held.run(PROGRAM, JUPYTER_VGPU_SOCKET=str(agent.path))
                return done
            finally:
                agent.close()

    yield run


USAGE = struct.pack("=II", MAGIC, LAYOUT).ljust(USAGE_BYTES, b"\0")


@pytest.mark.parametrize(
    ("make", "usage", "slot"),
    [
        pytest.param(lambda uuid: control(uuid)[:-1], USAGE, 0, id="a control page that is cut short"),
        pytest.param(lambda uuid: b"", USAGE, 0, id="an empty control page"),
        pytest.param(control, USAGE[:-1], 0, id="a usage page that is cut short"),
        pytest.param(control, USAGE, SLOTS, id="a slot beyond the last"),
        pytest.param(lambda uuid: random_but(control(uuid), [], 1), USAGE, 0, id="a control page of random bytes"),
        pytest.param(
            lambda uuid: random_but(control(uuid), [slice(0, 12)], 2),
            USAGE,
            0,
            id="a control page of very many devices",
        ),
    ],
)
def test_pages_that_cannot_be_are_refused_in_one_line(
    run_under: Callable[..., subprocess.CompletedProcess[str]],
    make: Callable[[bytes], bytes],
    usage: bytes,
    slot: int,
) -> None:
    done = run_under(make, usage, slot)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["100", "to its end"]
    assert done.stderr == (
        "jupyter_vgpu: no GPU for this process: the node agent and the library are of different versions.\n"
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kept",
    [[HEAD_WORDS], [HEAD_WORDS, UUID], [slice(0, UUID.stop)]],
    ids=["but four words", "but these and the UUID", "but head and UUID"],
)
def test_under_limits_of_random_bytes_a_program_comes_to_its_end(
    run_under: Callable[..., subprocess.CompletedProcess[str]], seed: int, kept: list[slice]
) -> None:
    usage = random_but(USAGE, [slice(0, 8)], seed)

    done = run_under(lambda uuid: random_but(control(uuid), kept, seed), usage)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "to its end"


@pytest.mark.slow
def test_a_gate_that_never_opens_lets_each_launch_through_after_ten_seconds(
    run_under: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_under(lambda uuid: control(uuid, gate=1), USAGE, has_governor=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0", "held back", "to its end"]


@pytest.mark.parametrize(
    "governor_ns",
    [
        pytest.param(lambda: time.monotonic_ns() + 3600 * 10**9, id="in an hour"),
        pytest.param(lambda: 2**63 - 1, id="at the end of time"),
        pytest.param(lambda: 2**64 - 1, id="before the beginning"),
    ],
)
def test_a_governor_that_looked_at_a_time_to_come_holds_nothing_back(
    run_under: Callable[..., subprocess.CompletedProcess[str]], governor_ns: Callable[[], int]
) -> None:
    done = run_under(lambda uuid: control(uuid, gate=1, governor_ns=governor_ns()), USAGE)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0", "at once", "to its end"]
