"""One rank of two in an all-reduce loop. Speaks as tenant.c does, after it was told "rank 0" or "rank 1".

usage: nccl_tenant.py all-reduce     (environment: MASTER_PORT)

A unit is ten all-reduces of 64 MiB; rank 0 says after each whether to go on, so that both stop together.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist

RANKS = 2
FLOATS = 16 << 20
A_UNIT = 10


def run(rank: int, seconds: float, at: float) -> dict[str, object]:
    """All-reduce from the clock's `at` on for so long; return when each unit was done, as the host saw it."""
    data = torch.ones(FLOATS, device="cuda")
    go_on = torch.ones(1, device="cuda")
    times: list[float] = []
    time.sleep(max(0.0, at - time.monotonic()))
    while True:
        for _ in range(A_UNIT):
            dist.all_reduce(data)
        data.fill_(1.0)
        if rank == 0:
            go_on.fill_(float(time.monotonic() - at < seconds))
        dist.broadcast(go_on, src=0)
        is_last = go_on.item() == 0  # waits for all of it
        times.append(round(time.monotonic() - at, 6))
        if is_last:
            return {"units": len(times), "seconds": times[-1], "times": times}


def main() -> None:
    """Answer until the input ends."""
    rank = int(sys.stdin.readline().split()[1])
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    torch.cuda.set_device(rank)
    address = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    dist.init_process_group("nccl", init_method=address, rank=rank, world_size=RANKS)
    warm = torch.ones(FLOATS, device="cuda")
    dist.all_reduce(warm)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] != "run":
            break
        print(json.dumps(run(rank, float(words[1]), float(words[2]))), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
