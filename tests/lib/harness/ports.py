"""Ports that nobody else takes between here and the program that is to listen on them.

What asks the host kernel for any port may be given one that was free a moment ago and is meant for another. So these
lie below those that the host kernel gives away, none is given twice in a run, and none to two processes: each takes
whole blocks, of which a socket that bears the block's name is the sign. Such names are of the same network namespace as
the ports, and gone with their process.
"""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import Iterator

# source: ip(7), ip_local_port_range: from 32768 on.
FIRST, LAST = 20_000, 32_000
_BLOCK = 100

_signs: list[socket.socket] = []


def _of_this_process() -> Iterator[int]:
    blocks = (LAST - FIRST) // _BLOCK
    start = secrets.randbelow(blocks)
    for turn in range(blocks):
        first = FIRST + (start + turn) % blocks * _BLOCK
        if _take(first):
            yield from range(first, first + _BLOCK)
    raise RuntimeError("every port for tests is taken, by this run or by others on this machine")


def _take(first: int) -> bool:
    """Return whether the block that begins at a port was nobody's, and take it until this process ends."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sign.bind(f"\0jupyter-vgpu-test-ports-{first}")
    except OSError:
        sign.close()
        return False
    _signs.append(sign)
    return True


_ports = _of_this_process()


def is_free(port: int) -> bool:
    """Return whether a port of the loopback interface can be listened on now."""
    try:
        # As servers do it: a port of which only ended connections are left is free.
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface on which nobody listens."""
    return list(itertools.islice(filter(is_free, _ports), count))


def free_port() -> int:
    """Return a port of the loopback interface on which nobody listens."""
    return free_ports(1)[0]
