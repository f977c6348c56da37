"""A client of the attach protocol that owes nothing to the library."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.waiting import wait_until
from jupyter_vgpu.pages import LAYOUT

ANSWER_SECONDS = 60

# native/include/jvgpu/pages.h
MAGIC = 0x4A564750
REQUEST = struct.Struct("=II64s")
REPLY = struct.Struct("=IIIIII192s")
CONTROL_HEAD = struct.Struct("=IIIIIIQQQ2Q")
CONTROL_DEVICE = struct.Struct("=16sQQIIIIQIIQ")
USE_BYTES = 128
SLOT_AT, SLOT_BYTES = 64, 64 + 16 * USE_BYTES


@dataclass
class Attached:
    """What an attach gave: the reply, and both pages."""

    status: int
    slot: int = -1
    generation: int = 0
    message: str = ""
    control_fd: int = -1
    usage_fd: int = -1
    _maps: list[mmap.mmap] = field(default_factory=list)

    def control(self) -> dict[str, Any]:
        """Return the control page's head and first device."""
        with mmap.mmap(self.control_fd, CONTROL_HEAD.size + CONTROL_DEVICE.size, prot=mmap.PROT_READ) as page:
            head = CONTROL_HEAD.unpack_from(page, 0)
            device = CONTROL_DEVICE.unpack_from(page, CONTROL_HEAD.size)
        names = (
            "magic",
            "layout",
            "state",
            "device_count",
            "slot_count",
            "epoch",
            "heartbeat_ns",
            "agent_pid",
            "governor_ns",
        )
        limits = (
            "uuid",
            "memory_limit_bytes",
            "memory_overhead_bytes",
            "share_ppm",
            "ceiling_ppm",
            "gate",
            "contenders",
            "flight_bound_ns",
            "is_governed",
        )
        return {**dict(zip(names, head, strict=False)), **dict(zip(limits, device, strict=False))}

    def write_use(
        self, held: int = 0, pending: int = 0, launches: int = 0, waited: int = 0, busy: int = 0, device: int = 0
    ) -> None:
        """Write what a process of the tenant may write: anything at all. Times in nanoseconds."""
        with mmap.mmap(self.usage_fd, 0) as page:
            at = SLOT_AT + self.slot * SLOT_BYTES + 64 + device * USE_BYTES
            struct.pack_into("=QQQQQ", page, at, held, pending, launches, waited, busy)

    def close(self) -> None:
        if self.usage_fd >= 0:
            # This process lives on, and what it says it holds would be promised to nobody after the claim's release.
            self.write_use(device=0)
            self.write_use(device=1)
        for fd in (self.control_fd, self.usage_fd):
            if fd >= 0:
                os.close(fd)
        self.control_fd = self.usage_fd = -1


def request_of(secret: str, layout: int = LAYOUT, magic: int = MAGIC) -> bytes:
    """Return a request to attach."""
    return REQUEST.pack(magic, layout, secret.encode())


def connected(path: Path) -> socket.socket:
    """Return a connection to an agent's socket for attaching."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # As the library does it: where too many wait to be let in, it waits its turn.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", ANSWER_SECONDS, 0))
    # And an agent that takes up the claims of another lets nobody in before it knows what they have.
    wait_until(lambda: _lets_in(connection, path), "the agent lets somebody attach")
    connection.settimeout(ANSWER_SECONDS)
    return connection


def _lets_in(connection: socket.socket, path: Path) -> bool:
    try:
        connection.connect(str(path))
    except ConnectionRefusedError:
        return False
    return True


def answer_on(connection: socket.socket) -> Attached | None:
    """Return the reply, `None` when the agent closed the connection without one."""
    fds = array.array("i")
    try:
        reply, rights, _, _ = connection.recvmsg(1024, socket.CMSG_SPACE(2 * fds.itemsize))
    except ConnectionResetError:
        return None
    if not reply:
        return None
    for _, _, data in rights:
        fds.frombytes(data)
    _, _, status, slot, generation, _, message = REPLY.unpack(reply)
    attached = Attached(status, slot, generation, message.rstrip(b"\0").decode())
    if fds:
        attached.control_fd, attached.usage_fd = fds
    return attached
