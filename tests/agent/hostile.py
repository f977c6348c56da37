"""A process that means no good: floods a socket with connections, or with garbage. Imports nothing of ours.

    hostile.py PATH KIND WHAT SEED [UID]

KIND: `seqpacket` or `stream`. WHAT: `hold N` opens N connections and keeps them, `churn N` opens and closes them,
`garbage N` sends N messages of random bytes and of a right request with something changed. Prints how many connections
it got, then waits until its input is closed.
"""

from __future__ import annotations

import os
import random
import resource
import socket
import struct
import sys

from jupyter_vgpu.pages import LAYOUT

path, kind, what, count, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
if len(sys.argv) > 6:
    os.setgid(int(sys.argv[6]))
    os.setuid(int(sys.argv[6]))
dice = random.Random(seed)
RIGHT = struct.pack("=II64s", 0x4A564750, LAYOUT, b"0123456789abcdef" * 4)


def connected() -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "seqpacket" else socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def message() -> bytes:
    style = dice.randrange(6)
    if style == 0:
        return dice.randbytes(dice.randrange(1, 5000))
    if style == 1:
        return dice.randbytes(len(RIGHT))
    if style == 2:
        return RIGHT[: dice.randrange(1, len(RIGHT))]
    if style == 3:
        return RIGHT + dice.randbytes(dice.randrange(1, 60_000))
    if style == 4:
        return b"GET /" + dice.randbytes(50) + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    changed = bytearray(RIGHT)
    for _ in range(dice.randrange(1, 4)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


held = []
got = 0
for _ in range(count):
    connection = connected()
    if connection is None:
        continue
    got += 1
    if what == "garbage":
        try:
            connection.send(message())
            if dice.random() < 0.5:
                # HTTP waits for the rest of what looks like a beginning.
                connection.settimeout(60 if kind == "seqpacket" else 0.01)
                connection.recv(1000)
        except OSError:
            pass
    if what == "hold":
        held.append(connection)
    else:
        connection.close()
sys.stdout.write(f"{got}\n")
sys.stdout.flush()
sys.stdin.read()
