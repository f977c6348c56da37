"""A program that uses a device by plain driver calls, and does what it is told on stdin, a line at a time.

With the library preloaded it is a tenant like any other; without, one that has dropped it. Its argument is the
device's ordinal. Answers each line with one of its own. Imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
held: list[ctypes.c_uint64] = []


def ok(result: int) -> None:
    assert result == 0, f"the driver says {result}"


def begin() -> None:
    ok(cuda.cuInit(0))
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(sys.argv[1])))
    ok(cuda.cuCtxSetCurrent(context))


def hold(size: str) -> str:
    """Allocate."""
    pointer = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(size)))
    if result == 0:
        held.append(pointer)
    return "held" if result == 0 else "refused"


def give() -> str:
    """Free everything."""
    while held:
        ok(cuda.cuMemFree_v2(held.pop()))
    return "given"


def free() -> str:
    """Say how much is free."""
    free_bytes, total_bytes = ctypes.c_size_t(), ctypes.c_size_t()
    ok(cuda.cuMemGetInfo_v2(ctypes.byref(free_bytes), ctypes.byref(total_bytes)))
    return str(free_bytes.value)


def churn(seconds: str, threads: str, most: str) -> str:
    """Allocate and free sizes up to `most` from several threads at once; in the end all is freed. Says how often."""
    ends_at = time.monotonic() + float(seconds)
    counts = [0] * int(threads)

    def work(index: int) -> None:
        dice = random.Random(index)
        ok(cuda.cuCtxSetCurrent(context))
        mine: list[ctypes.c_uint64] = []
        while time.monotonic() < ends_at:
            pointer = ctypes.c_uint64()
            if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(dice.randrange(1, int(most)))) == 0:
                mine.append(pointer)
                counts[index] += 1
            while len(mine) > dice.randrange(4):
                ok(cuda.cuMemFree_v2(mine.pop(dice.randrange(len(mine)))))
        while mine:
            ok(cuda.cuMemFree_v2(mine.pop()))

    workers = [threading.Thread(target=work, args=(index,)) for index in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return str(sum(counts))


def usage_page() -> tuple[int, int]:
    """Return where this process's usage page begins and ends, found among its mappings as any program can."""
    maps = Path("/proc/self/maps").read_text()
    begin, end = re.search(r"^(\w+)-(\w+) rw-s .*jvgpu-usage", maps, re.MULTILINE).groups()
    return int(begin, 16), int(end, 16)


def spoil(byte: str) -> str:
    """Overwrite all slots of the usage page with one byte."""
    begin, end = usage_page()
    ctypes.memset(begin + 64, int(byte), end - begin - 64)
    return "spoilt"


def bare(ordinal: str) -> str:
    """Start this program on a device without any of the slice's environment."""
    kept = {name: os.environ[name] for name in ("JUPYTER_VGPU_SIM", "LD_LIBRARY_PATH", "JUPYTER_VGPU_TEST_RUN")}
    command = [sys.executable, __file__, ordinal]
    started = subprocess.Popen(command, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    children.append(started)
    return started.stdout.readline().strip()


def spin(microseconds: str, seconds: str, part: str = "1", said: str = "1") -> str:
    """Launch for so long, and leave pauses so that the device has work for `part` of it.

    `said`: what part of the GPU time it had this process lets stand in its usage page.
    """
    module, function, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    ok(cuda.cuModuleLoadData(ctypes.byref(module), b"any text\0"))
    ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, f"sim_busy_{microseconds}us".encode()))
    ok(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    busy_seconds = 8 * int(microseconds) / 1e6
    begun = time.monotonic()
    batches, stands = 0, 0
    while time.monotonic() < begun + float(seconds):
        for _ in range(8):
            ok(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, None))
        ok(cuda.cuStreamSynchronize(stream))
        batches += 1
        if said != "1":
            # native/include/jvgpu/pages.h: the first slot, its first device, busy_ns.
            busy_ns = ctypes.c_uint64.from_address(usage_page()[0] + 64 + 64 + 32)
            stands += int((busy_ns.value - stands) * float(said))
            busy_ns.value = stands
        time.sleep(max(0, begun + batches * busy_seconds / float(part) - time.monotonic()))
    return "spun"


children: list[subprocess.Popen[str]] = []
commands = {each.__name__: each for each in (hold, give, free, churn, spoil, bare, spin)}

if __name__ == "__main__":
    cuda.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    begin()
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        name, *arguments = line.split()
        sys.stdout.write(f"{commands[name](*arguments)}\n")
        sys.stdout.flush()
