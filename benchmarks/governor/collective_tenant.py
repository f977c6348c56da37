"""One rank of two in a loop of collectives on simulated boards, where NCCL does not run. Speaks as nccl_tenant.py does.

usage: collective_tenant.py LAUNCH_US     (environment: MASTER_PORT)

A collective is a launch, followed on its stream by a step that ends when the other rank's has come as far. A unit is
ten of them; rank 0 says after each whether to go on, so that both stop together.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import time

A_UNIT = 10
DATA_BYTES = 64 << 20
CONNECT_SECONDS = 60.0
cuda = ctypes.CDLL("libcuda.so.1")


def ok(result: int) -> None:
    """Raise unless the driver says that all is well."""
    if result != 0:
        raise RuntimeError(f"the driver says {result}")


def connect(rank: int) -> tuple[socket.socket, socket.socket]:
    """Return two connections with the other rank, in the same order there."""
    address = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(address) as server:
            server.settimeout(CONNECT_SECONDS)
            accepted = server.accept()[0], server.accept()[0]
        for connection in accepted:
            connection.settimeout(None)
        return accepted
    return connected(address), connected(address)


def connected(address: tuple[str, int]) -> socket.socket:
    """Return a connection, once somebody listens there."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(address)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Rank:
    """A stream of one device, in step with the other rank's."""

    def __init__(self, rank: int, launch_us: str) -> None:
        """Connect with the other rank and prepare the device of the rank's number."""
        self._rank = rank
        self._streams, self._words = connect(rank)
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._stream, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._data = ctypes.c_uint64()
        ok(cuda.cuInit(0))
        ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank))
        ok(cuda.cuCtxSetCurrent(context))
        ok(cuda.cuMemAlloc_v2(ctypes.byref(self._data), ctypes.c_size_t(DATA_BYTES)))
        ok(cuda.cuStreamCreate(ctypes.byref(self._stream), 1))
        ok(cuda.cuModuleLoadData(ctypes.byref(module), b"any text"))
        ok(cuda.cuModuleGetFunction(ctypes.byref(self._function), module, f"sim_busy_{launch_us}us".encode()))
        self._meet = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._meet_other)

    def _meet_other(self, _: object) -> None:
        """Wait for the other rank, on the driver's thread, in the stream's order."""
        self._streams.sendall(b"x")
        self._streams.recv(1)

    def unit(self, is_last: bool) -> bool:
        """Do one unit of work, and return whether it is the last: rank 0 says so."""
        for _ in range(A_UNIT):
            ok(cuda.cuLaunchKernel(self._function, 132, 1, 1, 256, 1, 1, 0, self._stream, None, None))
            ok(cuda.cuLaunchHostFunc(self._stream, self._meet, None))
        ok(cuda.cuStreamSynchronize(self._stream))
        if self._rank == 0:
            self._words.sendall(b"01"[is_last : is_last + 1])
            return is_last
        return self._words.recv(1) == b"1"


def run(rank: Rank, seconds: float, at: float) -> dict[str, object]:
    """Work from the clock's `at` on for so long; return when each unit was done."""
    times: list[float] = []
    time.sleep(max(0.0, at - time.monotonic()))
    is_last = False
    while not is_last:
        is_last = rank.unit(time.monotonic() - at >= seconds)
        times.append(round(time.monotonic() - at, 6))
    return {"units": len(times), "seconds": times[-1], "times": times}


def main() -> None:
    """Answer until the input ends."""
    rank = Rank(int(sys.stdin.readline().split()[1]), sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] != "run":
            break
        print(json.dumps(run(rank, float(words[1]), float(words[2]))), flush=True)


if __name__ == "__main__":
    main()
