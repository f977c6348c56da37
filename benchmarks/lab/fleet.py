"""Placement and queue on paper: 10,000 users on 1,000 nodes, no hub, no agent, no clock.

    python benchmarks/lab/fleet.py [--users 10000] [--nodes 1000] [--out DIR]

Users arrive one after the other, hold a slice for a while and leave; whoever finds nothing waits in line. The decisions
are those of `jupyter_vgpu.placement` (which devices of a node), `jupyter_vgpu.hub.line` (who is next) and
`jupyter_vgpu.hub.keeping` (what is kept for who has waited too long). Nodes whose devices are equally full are alike,
so only one of each kind is asked, the fullest kind first. Printed are decisions per second at growing sizes, with a
line that is short, and with one that is longer than the lab is large; the exit status is 1 if a device was promised
twice.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
from bisect import bisect_left, insort
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.hub.keeping import kept_for, leaves
from jupyter_vgpu.hub.line import Line, Waiting, next_in
from jupyter_vgpu.model import Grant, Profile
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
DAY_SECONDS = 8 * 3600.0
MEAN_STAY_SECONDS = 7200.0
PATIENCE_SECONDS = 1800.0

_State = tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What one simulated day took and whether it kept its promises.

    Attributes:
        decisions: Looks for a slice, whether they found one or not.
        seconds: Of this process's own computing, so that a busy machine does not count.
        longest_wait_seconds: Of simulated time, of those who got a slice in the end: all.
    """

    users: int
    nodes: int
    decisions: int
    seconds: float
    served: int
    waited: int
    longest_line: int
    longest_wait_seconds: float
    over_committed: int

    @property
    def decision_us(self) -> float:
        """Microseconds per decision."""
        return 1e6 * self.seconds / self.decisions


class Fleet:
    """Nodes with their rooms; the fullest node that has enough is asked first."""

    def __init__(self, nodes: int) -> None:
        """Make `nodes` empty nodes."""
        self.rooms = [
            [Room(f"GPU-{n:05}-{d}", "A100", TOTAL_BYTES, TOTAL_BYTES, PPM) for d in range(DEVICES_PER_NODE)]
            for n in range(nodes)
        ]
        empty: _State = (PPM,) * DEVICES_PER_NODE
        self._alike: dict[_State, list[int]] = {empty: list(range(nodes))}
        self._index = list(range(nodes))  # of each node in its list
        self._states: list[tuple[int, _State]] = [(sum(empty), empty)]
        self._known: dict[str, tuple[int, tuple[Grant, ...]] | None] = {}
        self._leaves: dict[tuple[str, str], bool] = {}
        self.decisions = self.over_committed = 0

    def candidate(self, profile: Profile) -> tuple[int, tuple[Grant, ...]] | None:
        """Return where a slice would go, `None` when nowhere has room."""
        if profile.name not in self._known:
            self.decisions += 1
            self._known[profile.name] = self._look(profile)
        return self._known[profile.name]

    def _look(self, profile: Profile) -> tuple[int, tuple[Grant, ...]] | None:
        wanted = profile.share_ppm * profile.devices
        for index in range(bisect_left(self._states, (wanted, ())), len(self._states)):
            state = self._states[index][1]
            if sum(free >= profile.share_ppm for free in state) >= profile.devices:
                node = self._alike[state][-1]
                return node, best_fit(self.rooms[node], profile)
        return None

    def leaves_room(self, profile: Profile, waited_for: Profile) -> bool:
        """Return whether a slice would not go where what `waited_for` needs is kept: on the emptiest node."""
        pair = profile.name, waited_for.name
        if pair not in self._leaves:
            self._leaves[pair] = self._look_beside(profile, waited_for)
        return self._leaves[pair]

    def _look_beside(self, profile: Profile, waited_for: Profile) -> bool:
        found = self.candidate(profile)
        emptiest = self._alike[self._states[-1][1]][-1]
        if found is None or found[0] != emptiest:
            return found is not None
        rooms = self.rooms[emptiest]
        return leaves(profile, rooms, kept_for(waited_for, rooms))

    def take(self, node: int, grants: tuple[Grant, ...]) -> None:
        """Place a slice."""
        self._change(node, grants, 1)

    def release(self, node: int, grants: tuple[Grant, ...]) -> None:
        """Give a slice back."""
        self._change(node, grants, -1)

    def _change(self, node: int, grants: tuple[Grant, ...], sign: int) -> None:
        self._known.clear()
        self._leaves.clear()
        self._leave(node)
        for grant in grants:
            index = next(i for i, room in enumerate(self.rooms[node]) if room.uuid == grant.uuid)
            room = self.rooms[node][index]
            room = self.rooms[node][index] = replace(
                room,
                free_bytes=room.free_bytes - sign * grant.memory_bytes,
                free_share_ppm=room.free_share_ppm - sign * grant.share_ppm,
            )
            self.over_committed += room.free_bytes < 0 or room.free_share_ppm < 0
        state = self._state(node)
        if state not in self._alike:
            self._alike[state] = []
            insort(self._states, (sum(state), state))
        self._index[node] = len(self._alike[state])
        self._alike[state].append(node)

    def _leave(self, node: int) -> None:
        state = self._state(node)
        alike = self._alike[state]
        last = alike.pop()
        if last != node:
            alike[self._index[node]] = last
            self._index[last] = self._index[node]
        if not alike:
            del self._alike[state]
            del self._states[bisect_left(self._states, (sum(state), state))]

    def _state(self, node: int) -> _State:
        return tuple(sorted(room.free_share_ppm for room in self.rooms[node]))


class SimulatedDay:
    """Users who come and go on a fleet."""

    def __init__(self, users: int, nodes: int, seed: int = 1) -> None:
        """Script the day."""
        self.chance = random.Random(seed)
        self.users, self.nodes = users, nodes
        self.fleet = Fleet(nodes)
        self.line = Line(weights={f"group-{n}": 1.0 + n % 3 for n in range(20)})
        self.wants: dict[tuple[str, str], Profile] = {}
        self.leaving: list[tuple[float, int, int, tuple[Grant, ...]]] = []
        self.arriving = sorted(self.chance.uniform(0, DAY_SECONDS) for _ in range(users))
        self.served = self.waited = self.longest_line = 0
        self.longest_wait = 0.0

    def live(self) -> Outcome:
        """Let everybody come, be served and leave; return what it took."""
        started = time.process_time()
        for number, now in enumerate(self.arriving):
            self._leave_until(now)
            self._arrive(number, now)
        self._leave_until(float("inf"))
        assert not self.line, "somebody was never served"
        return Outcome(
            self.users,
            self.nodes,
            self.fleet.decisions,
            time.process_time() - started,
            self.served,
            self.waited,
            self.longest_line,
            self.longest_wait,
            self.fleet.over_committed,
        )

    def _arrive(self, number: int, now: float) -> None:
        (profile,) = self.chance.choices(PROFILES, ODDS)
        key = (f"user-{number}", "")
        if not self.line and self._seat(profile, now):
            return
        share = profile.share_ppm / PPM * profile.devices
        self.wants[key] = profile
        self.line.add(Waiting(key, f"group-{number % 20}", share, 1, now, number, profile.name))
        self.waited += 1
        self.longest_line = max(self.longest_line, len(self.line))

    def _leave_until(self, moment: float) -> None:
        while self.leaving and self.leaving[0][0] <= moment:
            now, _, node, grants = heapq.heappop(self.leaving)
            self.fleet.release(node, grants)
            while self._serve_one(now):
                pass

    def _serve_one(self, now: float) -> bool:
        # As in `WaitingRoom`: when nothing that anybody waits for fits, nobody is looked at.
        if not self.line or not any(self.fleet.candidate(one) for one in PROFILES if one.name in self.line.kinds):
            return False
        chosen = next_in(
            self.line.heads(),
            lambda one: self.fleet.candidate(self.wants[one.key]) is not None,
            now,
            PATIENCE_SECONDS,
            lambda one, first: self.fleet.leaves_room(self.wants[one.key], self.wants[first.key]),
        )
        if chosen is None:
            return False
        self.line.remove(chosen.key)
        self.longest_wait = max(self.longest_wait, now - chosen.arrived_at)
        return self._seat(self.wants.pop(chosen.key), now)

    def _seat(self, profile: Profile, now: float) -> bool:
        found = self.fleet.candidate(profile)
        if found is None:
            return False
        self.fleet.take(*found)
        self.served += 1
        heapq.heappush(self.leaving, (now + self.chance.expovariate(1 / MEAN_STAY_SECONDS), self.served, *found))
        return True


def describe(found: Outcome) -> str:
    """Return one line for people."""
    return (
        f"{found.users} users on {found.nodes} nodes: {found.decisions} decisions, "
        f"{1e6 / found.decision_us:.0f} per second ({found.decision_us:.0f} µs each); waited {found.waited}, "
        f"longest line {found.longest_line}, longest wait {found.longest_wait_seconds / 3600:.1f} h, "
        f"over-committed {found.over_committed}"
    )


def main() -> int:
    """Print decisions per second at growing sizes; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--out", type=Path, help="folder that keeps what was found as JSON and text")
    wanted = parser.parse_args()
    said, kept, is_good = [], [], True
    for scarce in (1, 5, 20):  # so many times fewer nodes: people wait, and the line is long
        sizes = [(max(1, wanted.users // part), max(1, wanted.nodes // part // scarce)) for part in (100, 10, 1)]
        outcomes = [SimulatedDay(users, nodes).live() for users, nodes in sizes]
        growth = outcomes[-1].decision_us / outcomes[0].decision_us
        is_good &= not any(outcome.over_committed for outcome in outcomes)
        said += [describe(outcome) for outcome in outcomes]
        said.append(f"  a decision takes {growth:.1f} times as long with 100 times the users")
        kept += [asdict(outcome) | {"decision_us": round(outcome.decision_us, 1)} for outcome in outcomes]
    print(*said, sep="\n")
    if wanted.out is not None:
        wanted.out.mkdir(parents=True, exist_ok=True)
        stem = wanted.out / f"fleet-{datetime.now(timezone.utc):%Y-%m-%d}"
        stem.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
        stem.with_suffix(".txt").write_text("\n".join(said) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
