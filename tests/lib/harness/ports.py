"""Ports that nobody else takes between here and the program that is to listen on them.

What asks the host kernel for any port may be given one that was free a moment ago and is meant for another. So these
lie below those that the host kernel gives away, none is given twice in a run, and each worker of a run has its own.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Iterator

# source: ip(7), ip_local_port_range: from 32768 on.
FIRST, LAST = 20_000, 32_000


def _of_this_worker() -> Iterator[int]:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % workers
    count = (LAST - FIRST) // workers
    start = secrets.randbelow(count)  # where another run on this machine hardly is
    return (FIRST + worker * count + (start + turn) % count for turn in itertools.count())


_ports = _of_this_worker()


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
