"""A rush: sixteen users who all begin, or leave, at the same moment; four boards, a real agent and a real ledger.

    python benchmarks/lab/rush.py [--rounds 20] [--ledger URL]

What the hub's side takes for it, without JupyterHub and its servers: its queue and its desk in one process, the agent
in another. Three lines, each with the time from the moment at which it could begin to each user's having what they
wanted:

    queued, and all is given back     sixteen wait for quarters of four boards that four others have, who leave at once
    all arrive                        sixteen come where all is free
    all leave                         sixteen give their quarters back
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "lib"))
from harness.hubs import Agent
from jupyter_vgpu.client import HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.queue import WaitingRoom
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.quotas import parse_quotas

QUARTER, WHOLE = parse_profiles({"1/4 GPU": {"share": "1/4"}, "whole GPU": {"backend": "whole"}})
BOARDS, QUARTERS = 4, 4
TEACHERS = [f"teacher-{number}" for number in range(BOARDS)]
STUDENTS = [f"student-{number}" for number in range(BOARDS * QUARTERS)]
_LOOK_SECONDS = 0.01
_CALM_SECONDS = 0.1  # so that a look which has just found nothing is over

Times = dict[str, list[float]]


async def live(desk: ClaimDesk, rounds: int) -> Times:
    """Return how long each user took, by what they did."""
    room = WaitingRoom(desk, timeout_seconds=600.0)
    times: Times = {"queued, and all is given back": [], "all arrive": [], "all leave": []}
    begun = 0.0

    async def timed(what: str, work: Awaitable[object]) -> None:
        await work
        times[what].append(time.monotonic() - begun)

    async def leave(user: str) -> None:
        await desk.give_back((user, ""), "", "the lesson is over")

    for _ in range(rounds):
        for teacher in TEACHERS:
            await room.claim((teacher, ""), os.getuid(), WHOLE)
        waits = [asyncio.ensure_future(room.claim((student, ""), os.getuid(), QUARTER)) for student in STUDENTS]
        while any(room.position((student, "")) is None for student in STUDENTS):
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(_CALM_SECONDS)
        begun = time.monotonic()
        served = [asyncio.ensure_future(timed("queued, and all is given back", wait)) for wait in waits]
        await asyncio.gather(*map(leave, TEACHERS), *served)
        begun = time.monotonic()
        await asyncio.gather(*(timed("all leave", leave(student)) for student in STUDENTS))
        begun = time.monotonic()
        await asyncio.gather(
            *(timed("all arrive", room.claim((student, ""), os.getuid(), QUARTER)) for student in STUDENTS)
        )
        await asyncio.gather(*map(leave, STUDENTS))
    return times


def main() -> int:
    """Print the times; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ledger", help="URL of the ledger's database (default: a new SQLite file)")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Agent(f"{BOARDS}xa100-80").running() as agent:
        ledger = Ledger(wanted.ledger or f"sqlite:///{folder}/ledger.sqlite")
        client = HubClient(agent.runtime_dir, timeout_seconds=60)
        desk = ClaimDesk(client, ledger, "here", parse_quotas({"everyone": {"slices": 1}}))
        times = asyncio.run(live(desk, wanted.rounds))
        ledger.close()
    for what, seconds in times.items():
        seconds.sort()
        p50, p95 = (1000 * seconds[len(seconds) * part // 100] for part in (50, 95))
        print(f"{what:32} p50 {p50:6.1f} ms, p95 {p95:6.1f} ms, most {1000 * seconds[-1]:6.1f} ms")
    print(f"{wanted.rounds} rounds, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} in the last minute")
    return 0


if __name__ == "__main__":
    sys.exit(main())
