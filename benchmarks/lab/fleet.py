"""Placement and queue on paper: 10,000 users on 1,000 nodes, no hub, no agent, no clock.

    python benchmarks/lab/fleet.py [--users 10000] [--nodes 1000]

Users arrive one after the other, hold a slice for a while and leave; whoever finds nothing waits in line. The decisions
are those of `jupyter_vgpu.placement` (which devices of a node) and `jupyter_vgpu.hub.line` (who is next). Nodes whose
devices are equally full are alike, so only one of each kind is asked, the fullest kind first. Printed are decisions
per second at growing sizes, so that the growth is seen, and whether any device was ever promised twice.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from dataclasses import dataclass, replace

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import NoCapacityError
from jupyter_vgpu.hub.line import Waiting, in_order
from jupyter_vgpu.model import Grant
from jupyter_vgpu.placement import Room, best_fit
from jupyter_vgpu.units import GIB, PPM

PROFILES = parse_profiles(
    {
        "1/8 GPU": {"share": "1/8"},
        "1/4 GPU": {"share": "1/4"},
        "1/2 GPU": {"share": "1/2"},
        "whole GPU": {"backend": "whole"},
        "two GPUs": {"backend": "whole", "devices": 2},
    }
)
ODDS = (30, 40, 20, 8, 2)
DEVICES_PER_NODE = 4
TOTAL_BYTES = 80 * GIB
MOST_LOOKED_AT = 64  # of those who wait, at each departure


@dataclass
class Outcome:
    """What one simulated day took and whether it kept its promises."""

    decisions: int
    seconds: float
    lines: int
    line_seconds: float
    longest_line: int
    over_committed: int


class Fleet:
    """Nodes with their rooms; the fullest node that has enough is asked first."""

    def __init__(self, nodes: int) -> None:
        """Make `nodes` empty nodes."""
        self.rooms = [
            [Room(f"GPU-{n:05}-{d}", "A100", TOTAL_BYTES, TOTAL_BYTES, PPM) for d in range(DEVICES_PER_NODE)]
            for n in range(nodes)
        ]
        self.alike: dict[tuple[int, ...], set[int]] = {(PPM,) * DEVICES_PER_NODE: set(range(nodes))}
        self.over_committed = 0

    def place(self, profile_number: int) -> tuple[int, tuple[Grant, ...]] | None:
        """Return where a slice went, `None` when nowhere has room."""
        profile = PROFILES[profile_number]
        wanted = profile.share_ppm * profile.devices
        for state in sorted((state for state in self.alike if sum(state) >= wanted), key=lambda one: (sum(one), one)):
            node = min(self.alike[state])
            try:
                grants = best_fit(self.rooms[node], profile)
            except NoCapacityError:
                continue  # enough in sum, not on one device
            self._change(node, grants, 1)
            return node, grants
        return None

    def release(self, node: int, grants: tuple[Grant, ...]) -> None:
        """Give a slice back."""
        self._change(node, grants, -1)

    def _change(self, node: int, grants: tuple[Grant, ...], sign: int) -> None:
        state = self._state(node)
        self.alike[state].discard(node)
        if not self.alike[state]:
            del self.alike[state]
        for grant in grants:
            index = next(i for i, room in enumerate(self.rooms[node]) if room.uuid == grant.uuid)
            room = self.rooms[node][index]
            room = self.rooms[node][index] = replace(
                room,
                free_bytes=room.free_bytes - sign * grant.memory_bytes,
                free_share_ppm=room.free_share_ppm - sign * grant.share_ppm,
            )
            self.over_committed += room.free_bytes < 0 or room.free_share_ppm < 0
        self.alike.setdefault(self._state(node), set()).add(node)

    def _state(self, node: int) -> tuple[int, ...]:
        return tuple(sorted(room.free_share_ppm for room in self.rooms[node]))


def day(users: int, nodes: int, seed: int = 1) -> Outcome:
    """Let `users` come and go on `nodes` and return what it took."""
    chance = random.Random(seed)
    fleet = Fleet(nodes)
    waiting: dict[tuple[str, str], tuple[Waiting, int]] = {}
    leaving: list[tuple[float, int, int, tuple[Grant, ...]]] = []
    decisions = lines = longest = number = 0
    line_seconds = 0.0
    arrivals = [(chance.uniform(0, 8 * 3600), n) for n in range(users)]
    events: list[tuple[float, int, int]] = [(at, 0, n) for at, n in arrivals]
    heapq.heapify(events)
    started = time.perf_counter()

    def seat(now: float, profile_number: int) -> bool:
        nonlocal decisions, number
        decisions += 1
        placed = fleet.place(profile_number)
        if placed is None:
            return False
        number += 1
        heapq.heappush(leaving, (now + chance.expovariate(1 / 7200), number, *placed))
        return True

    while events or leaving:
        if leaving and (not events or leaving[0][0] <= events[0][0]):
            now, _, node, grants = heapq.heappop(leaving)
            fleet.release(node, grants)
            if waiting:
                before = time.perf_counter()
                order = in_order(one for one, _ in waiting.values())
                line_seconds += time.perf_counter() - before
                lines += 1
                failed: set[int] = set()
                for one in order[:MOST_LOOKED_AT]:
                    profile_number = waiting[one.key][1]
                    if profile_number in failed:
                        continue
                    if seat(now, profile_number):
                        del waiting[one.key]
                    else:
                        failed.add(profile_number)
            elif not events:
                continue
        else:
            now, _, user = heapq.heappop(events)
            profile_number = chance.choices(range(len(PROFILES)), ODDS)[0]
            if waiting or not seat(now, profile_number):
                key = (f"user-{user}", "")
                share = PROFILES[profile_number].share_ppm / PPM * PROFILES[profile_number].devices
                waiting[key] = (Waiting(key, f"group-{user % 20}", share, 1, now), profile_number)
                longest = max(longest, len(waiting))
    return Outcome(decisions, time.perf_counter() - started, lines, line_seconds, longest, fleet.over_committed)


def main() -> None:
    """Print decisions per second at growing sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    wanted = parser.parse_args()
    for part in (100, 10, 1):
        users, nodes = max(1, wanted.users // part), max(1, wanted.nodes // part)
        # The second time with a fifth of the nodes: people wait, and the line is long.
        for few in (nodes, max(1, nodes // 5)):
            found = day(users, few)
            placing = found.seconds - found.line_seconds
            line = f", line sorted in {1000 * found.line_seconds / found.lines:.2f} ms" if found.lines else ""
            print(
                f"{users} users on {few} nodes: {found.decisions} decisions, "
                f"{found.decisions / placing:.0f} per second, "
                f"longest line {found.longest_line}{line}, over-committed {found.over_committed}"
            )


if __name__ == "__main__":
    main()
