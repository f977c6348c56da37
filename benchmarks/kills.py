"""Kill processes of a slice at random moments beside eight neighbours at work: does anyone wait, is anything leaked?

    python benchmarks/kills.py --kills 10000 --seconds 900 --state kills.json

Four neighbours share the victims' slice, four are another tenant's. Ends after so many kills, or when the time is up;
what was done is kept in the state file, and the next run with it goes on from there. Prints its summary, and ends with
0 when nothing was leaked and every neighbour went on working; how long the longest call of a neighbour took is printed
for the reader to judge: on a machine that is busy with something else a call may wait for a turn of the processor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import platform
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from jupyter_vgpu.client import GrantedClaim, HubClient
from jupyter_vgpu.errors import AgentUnreachableError
from jupyter_vgpu.model import ClaimRequest, Memory, Profile
from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

REPOSITORY = Path(__file__).resolve().parents[1]
GIB = 1 << 30
NEIGHBOURS = 8
VICTIMS = 6
STUCK_SECONDS = 60.0
SETTLE_SECONDS = 30.0
NEIGHBOUR_PAUSE_US = 2000
VICTIM_PAUSE_US = 300


@dataclass
class Tally:
    """What all runs with one state file did together.

    Attributes:
        kills: Processes killed.
        at_work: Of those, how many had made calls already; the others were killed while they started.
        seconds: For how long.
        calls: What the neighbours did meanwhile.
        longest_wait_seconds: Their longest single call.
        leaked_bytes: What was still charged, or used on the board, when all were gone.
        left_processes: Which the agent still knew then.
        seeds: Of the runs' dice.
    """

    kills: int = 0
    at_work: int = 0
    seconds: float = 0.0
    calls: int = 0
    longest_wait_seconds: float = 0.0
    leaked_bytes: int = 0
    left_processes: int = 0
    seeds: list[int] | None = None


class Slice:
    """A claim and the environment of its programs."""

    def __init__(self, hub: HubClient, tenant: str) -> None:
        """Claim 16 GiB."""
        profile = Profile("kills", int(Fraction(1, 4) * 1_000_000), 1_000_000, Memory(None, 16 * GIB))
        self.granted: GrantedClaim = hub.create_claim(ClaimRequest(tenant, "kills", os.getuid(), profile, "auto"))
        self.environment = self.granted.edits.applied_to(dict(os.environ))


class Kills:
    """A board, its agent, the neighbours and the victims."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Compile the tenant and start the agent."""
        self._folder = folder
        self._dice = random.Random(seed)
        self._tenant = folder / "tenant"
        compiler = shutil.which("cc") or "gcc"
        source = REPOSITORY / "tests" / "stress" / "tenant.c"
        libraries = [f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1"]
        subprocess.run([compiler, "-std=gnu11", "-O2", "-o", self._tenant, source, *libraries], check=True)
        self._progress_path = folder / "progress"
        self._progress_path.write_bytes(bytes(4096))
        with self._progress_path.open("r+b") as file:
            self._progress = mmap.mmap(file.fileno(), 4096)
        runtime = folder / "agent"
        self._agent = subprocess.Popen(
            [*(sys.executable, "-m", "jupyter_vgpu.cli", "agent"), "--simulate", "a100-80", "--runtime-dir", runtime],
            stderr=(folder / "agent.log").open("wb"),
        )
        self.hub = HubClient(runtime)
        self._await_agent()
        self._shared, self._other = Slice(self.hub, "victims"), Slice(self.hub, "others")
        self._neighbours: list[subprocess.Popen[bytes]] = []
        self._victims: list[tuple[subprocess.Popen[bytes], int]] = []
        self._places = list(range(NEIGHBOURS, NEIGHBOURS + VICTIMS))
        self.at_work = 0

    def _await_agent(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            with contextlib.suppress(AgentUnreachableError):
                self.hub.health()
                return
            if time.monotonic() > deadline or self._agent.poll() is not None:
                raise SystemExit(f"the agent does not start: {(self._folder / 'agent.log').read_text()}")
            time.sleep(0.05)

    def _start(self, of: Slice, pause_us: int, *progress: str) -> subprocess.Popen[bytes]:
        seed = str(self._dice.randrange(1 << 30))
        return subprocess.Popen([self._tenant, "0", seed, str(pause_us), *progress], env=of.environment)

    def run(self, kills: int, seconds: float) -> int:
        """Kill so many, for so long at most, and return how many it was, those in `end` included."""
        for index in range(NEIGHBOURS):
            of = self._shared if index % 2 == 0 else self._other
            self._neighbours.append(self._start(of, NEIGHBOUR_PAUSE_US, str(self._progress_path), str(index)))
        self._await_work([0] * NEIGHBOURS)
        # What starting took is no wait of a neighbour's.
        for index in range(NEIGHBOURS):
            struct.pack_into("=Q", self._progress, 16 * index + 8, 0)
        ends_at = time.monotonic() + seconds
        for count in range(1, kills + 1):
            place = self._places.pop()
            struct.pack_into("=Q", self._progress, 16 * place, 0)
            victim = self._start(self._shared, VICTIM_PAUSE_US, str(self._progress_path), str(place))
            self._victims.append((victim, place))
            # From before its first call to well into its work.
            time.sleep(self._dice.choice((0.0, 0.001, 0.005, 0.02, 0.05)) * self._dice.random())
            while len(self._victims) >= VICTIMS:
                self._kill(*self._victims.pop(self._dice.randrange(len(self._victims))))
            if count % 200 == 0:
                self._check()
            if time.monotonic() > ends_at:
                return count
        return kills

    def _kill(self, victim: subprocess.Popen[bytes], place: int) -> None:
        victim.kill()
        if victim.wait() != -signal.SIGKILL:
            raise SystemExit(f"a victim ended by itself, with {victim.returncode}")
        self.at_work += struct.unpack_from("=Q", self._progress, 16 * place)[0] > 0
        self._places.append(place)

    def _check(self) -> None:
        for neighbour in self._neighbours:
            if neighbour.poll() is not None:
                raise SystemExit(f"a neighbour ended with {neighbour.returncode}")

    def calls(self) -> list[int]:
        """Return what each neighbour has done."""
        return [struct.unpack_from("=Q", self._progress, 16 * index)[0] for index in range(NEIGHBOURS)]

    def longest_wait_seconds(self) -> float:
        """Return the longest call of any neighbour."""
        return max(struct.unpack_from("=Q", self._progress, 16 * index + 8)[0] for index in range(NEIGHBOURS)) / 1e9

    def _await_work(self, since: list[int]) -> None:
        """Wait until every neighbour has done something since."""
        deadline = time.monotonic() + STUCK_SECONDS
        while any(now <= then for now, then in zip(self.calls(), since, strict=True)):
            self._check()
            if time.monotonic() > deadline:
                raise SystemExit(f"a neighbour has done nothing for {STUCK_SECONDS:g} s")
            time.sleep(0.01)

    def end(self) -> tuple[int, int]:
        """End everyone and return the bytes and the processes that are left, as agent and board say."""
        while self._victims:
            self._kill(*self._victims.pop())
        self._await_work(self.calls())
        for neighbour in self._neighbours:
            neighbour.kill()
            neighbour.wait()
        deadline = time.monotonic() + SETTLE_SECONDS
        while (left := self._left()) != (0, 0) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _left(self) -> tuple[int, int]:
        usages: list[Any] = [self.hub.usage(of.granted.claim["claim"]) for of in (self._shared, self._other)]
        charged = sum(device["memory_used_bytes"] for usage in usages for device in usage["devices"])
        return charged + self._used_on_board(), sum(len(usage["processes"]) for usage in usages)

    def _used_on_board(self) -> int:
        environment = {
            **os.environ,
            "JUPYTER_VGPU_SIM": self._shared.environment["JUPYTER_VGPU_SIM"],
            "LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR),
        }
        look = (
            "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0);"
            "print(n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).used)"
        )
        return int(
            subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, check=True).stdout
        )

    def close(self) -> None:
        """End whatever still runs."""
        for process in [*(victim for victim, _ in self._victims), *self._neighbours]:
            process.kill()
            process.wait()
        self._agent.terminate()
        self._agent.wait()


def summary(tally: Tally) -> str:
    """Return what a run has to say, in one line."""
    return (
        f"{tally.kills} SIGKILLs ({tally.at_work} at work, the others while starting) in {tally.seconds:.0f} s "
        f"beside {NEIGHBOURS} busy neighbours ({tally.calls} calls); "
        f"longest wait of a neighbour: {tally.longest_wait_seconds:.3f} s; "
        f"left: {tally.leaked_bytes} bytes, {tally.left_processes} processes"
    )


def main() -> int:
    """Run, add to the state file, print."""
    parser = argparse.ArgumentParser(description="Kill processes at random beside neighbours at work.")
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--state", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    state: Path | None = options.state
    tally = Tally(**json.loads(state.read_text())["tally"]) if state and state.exists() else Tally()
    todo = options.kills - tally.kills
    if todo > 0:
        with tempfile.TemporaryDirectory(prefix="k") as folder:
            kills = Kills(Path(folder), options.seed)
            begun = time.monotonic()
            try:
                done = kills.run(todo, options.seconds)
                bytes_left, processes_left = kills.end()
            finally:
                kills.close()
            tally = Tally(
                kills=tally.kills + done,
                at_work=tally.at_work + kills.at_work,
                seconds=tally.seconds + time.monotonic() - begun,
                calls=tally.calls + sum(kills.calls()),
                longest_wait_seconds=max(tally.longest_wait_seconds, kills.longest_wait_seconds()),
                leaked_bytes=max(tally.leaked_bytes, bytes_left),
                left_processes=max(tally.left_processes, processes_left),
                seeds=[*(tally.seeds or []), options.seed],
            )
        if state:
            where = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()}
            state.write_text(
                json.dumps({"tally": asdict(tally), "machine": where, "summary": summary(tally)}, indent=2)
            )
    print(summary(tally))
    if tally.kills < options.kills:
        print(f"the time was up: {options.kills - tally.kills} to go, run it again with the same --state")
    return 0 if (tally.leaked_bytes, tally.left_processes) == (0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
