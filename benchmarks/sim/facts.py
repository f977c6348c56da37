"""Compare the simulated H200 with what was measured on a real one, row by row.

`make sim-facts`. The clients (`burn.c`, `evt.c`, `evt2.c`) are the programs that were run on the GPU, written
against the driver API. The boards' clock is slowed down, so that what else the machine does disturbs little; with
`--slowdown 1` on a quiet machine it is not needed.

A row is a measured figure and the same figure here, in per cent; waits are in per cent of one round of the
neighbours' turns. The model's constants stand in `native/sim/turns.h`, `timeline.c`, `event.c` and `launch.c`; the
figures compared are those of `FACTS`, the project's measurements of 2026-11-29.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_vgpu.native import SIMULATED_DRIVER_DIR
from jupyter_vgpu.sim import create_boards
from jupyter_vgpu.sim.faults import set_mps

HERE = Path(__file__).resolve().parent
TOLERANCE = 3.0
TURN_US = 2270.0  # a neighbour's turn with the switch after it
# 1,000 pairs of dependent multiply-adds, four cycles each, at 1.98 GHz take 2 us; the gap after them is another two.
SMALL = {"GRID": "16", "FUNCTION": "sim_busy_4000ns"}


@dataclass(frozen=True)
class Row:
    """One comparison: what it is, the measured figure, the one here, in per cent."""

    name: str
    measured: float
    simulated: float
    rounded: float = 0.0  # half a unit of the measured figure's last digit, in the same per cent
    remark: str = ""  # why it may be apart

    @property
    def holds(self) -> bool:
        """True when the two differ by at most three points, beside what the measured figure was rounded by."""
        return abs(self.simulated - self.measured) <= TOLERANCE + self.rounded


class Board:
    """A simulated H200 and the clients that run on it."""

    def __init__(self, folder: Path, slowdown: int, seconds: float) -> None:
        """Compile the clients and make the board."""
        self.folder = folder
        self.slowdown = slowdown
        self.seconds = seconds
        self.state = create_boards(folder / "state", "h200", slowdown)
        compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
        for name in ("burn", "evt", "evt2"):
            subprocess.run(
                [
                    *(compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", folder / name, HERE / f"{name}.c"),
                    *(f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-lpthread"),
                ],
                check=True,
            )

    def run(self, *command: object, **settings: str) -> Any:
        """Return what a client says."""
        environment = os.environ | {
            "JUPYTER_VGPU_SIM": str(self.state),
            "LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR),
            "SLOWDOWN": str(self.slowdown),
        }
        done = subprocess.run(
            [self.folder / str(command[0]), *map(str, command[1:])],
            env=environment | settings,
            stdout=subprocess.PIPE,
            check=True,
            timeout=60 + 20 * self.seconds * self.slowdown,
        )
        return json.loads(done.stdout)

    def burn(self, mode: str, quantum_ms: float, *weights: float, **settings: str) -> Any:
        """Return launches per second and each tenant's part."""
        # Longer where few values are averaged, or whole windows counted.
        seconds = self.seconds * (3 if "THINK_US" in settings or "CAP" in settings else 2 if mode == "token" else 1)
        return self.run("burn", mode, seconds, quantum_ms, *weights, **settings)


def native_sharing(board: Board) -> Iterator[Row]:
    """Yield the table "Native sharing, no help"."""
    alone = board.burn("free", 0, 1)["rate"]
    for tenants, measured in ((2, 90.3), (4, 90.7)):
        told = board.burn("free", 0, *[1] * tenants)
        yield Row(f"{tenants} always busy: total against one alone", measured, 100 * told["rate"] / alone)
        yield Row(f"{tenants} always busy: smallest part", 100 / tenants, 100 * min(told["parts"]))
    small = board.burn("free", 0, 1, **SMALL)["rate"]
    for tenants, measured in ((2, 115), (4, 114)):
        told = board.burn("free", 0, *[1] * tenants, **SMALL)
        yield Row(f"{tenants} with small launches: total against one alone", measured, 100 * told["rate"] / small)
    for neighbours, measured_us in ((1, 2200), (3, 6700)):
        told = board.burn("free", 0, *[1] * (neighbours + 1), THINK_US="20000")
        name = f"a short launch now and then beside {neighbours}: wait"
        yield wait_row(name, neighbours, measured_us, told["latency_us"], rounded_us=50)
    set_mps(board.state, True)
    for tenants, measured in ((2, 110), (4, 111)):
        told = board.burn("free", 0, *[1] * tenants)
        yield Row(f"{tenants} always busy, MPS: total against one alone", measured, 100 * told["rate"] / alone)
    for tenants, measured in ((2, 168), (4, 331)):
        told = board.burn("free", 0, *[1] * tenants, **SMALL)
        yield Row(f"{tenants} with small launches, MPS: total against one alone", measured, 100 * told["rate"] / small)
    told = board.burn("free", 0, 1, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25")
    yield Row("one with 25 % of the SMs, MPS: rate against alone", 26, 100 * told["rate"] / alone)
    set_mps(board.state, False)


def wait_row(name: str, neighbours: int, measured_us: float, simulated_us: float, rounded_us: float = 0.0) -> Row:
    """Return a row about a wait, in per cent of one round of the neighbours."""
    percent = 100 / (neighbours * TURN_US)
    return Row(name, percent * measured_us, percent * simulated_us, percent * rounded_us)


def windows(board: Board) -> Iterator[Row]:
    """Yield the table "Exclusive windows" and the weights and ceilings below it."""
    alone = board.burn("free", 0, 1)["rate"]
    for quantum_ms, measured in ((2, 95.5), (5, 97.6), (10, 99.2), (20, 99.6)):
        told = board.burn("token", quantum_ms, 1, 1)
        yield Row(f"windows of {quantum_ms} ms: total against one alone", measured, 100 * told["rate"] / alone)
    for weights, parts in (((3, 1), (74.9, 25.1)), ((1, 2, 4), (14.2, 28.6, 57.2))):
        told = board.burn("token", 5, *weights)
        for number, measured in enumerate(parts):
            name = f"windows, weights {':'.join(map(str, weights))}: part of tenant {number + 1}"
            yield Row(name, measured, 100 * told["parts"][number])
    for cap, measured in ((0.10, 10.15), (0.25, 25.0), (0.50, 49.6)):
        told = board.burn("token", 10, 1, CAP=str(cap))
        yield Row(f"windows, ceiling {cap:.0%}: rate against alone", measured, 100 * told["rate"] / alone)


def timing_events(board: Board) -> Iterator[Row]:
    """Yield the table "What measures GPU time honestly"."""
    for launches, neighbours, events_us, host_us in ((1, 1, 22.8, 375), (10, 3, 210, 5000)):
        told = board.run("evt", board.seconds, 2000, launches, neighbours)
        name = f"{launches} launches beside {neighbours}"
        truth = 20.8 * launches
        yield Row(f"{name}: events against truth", 100 * events_us / truth, 100 * told["events_us"]["p50"] / truth)
        wait = wait_row(f"{name}: the host's wait", neighbours, host_us, told["host_us"]["p50"])
        # The neighbours' batches are as long as a turn, to a thousandth: whether they end in it or just after decides.
        yield replace(wait, remark="batches as long as a turn" if neighbours == 3 else "")
    measured_batches = (
        (10, 2, 45.5, 46.3, 10, 2.48),
        (24, 2, 45.4, 45.5, 25, 2.48),
        (48, 2, 45.2, 45.4, 50, 2.48),
        (24, 4, 22.6, 22.9, None, 7.04),
    )
    for launches, tenants, clean, true, interrupted, excess_ms in measured_batches:
        told = board.run("evt2", board.seconds, launches, tenants)
        name = f"batches of {launches * 0.0208:.1f} ms, {tenants} tenants"
        yield Row(f"{name}: events, put right", clean, 100 * told["clean"])
        yield Row(f"{name}: true part of the wall time", true, 100 * told["true"])
        if interrupted is not None:
            yield Row(f"{name}: switched out", interrupted, 100 * told["interrupted"])
        yield Row(f"{name}: excess, of a turn lost", 100, 100 * told["excess_ms"] / excess_ms)
    for launch_us, launches in ((2000, 1), (3800, 1)):
        told = board.run("evt2", board.seconds, launches, 2, FUNCTION=f"sim_busy_{launch_us}us")
        ratio = told["raw"] / told["true"]
        # "1.9-2.3 times too much": nearest of the two ends, or the value itself in between.
        yield Row(f"launches of {launch_us} us: raw against truth", 100 * min(max(ratio, 1.9), 2.3), 100 * ratio)


TABLES: dict[str, Callable[[Board], Iterator[Row]]] = {
    "Native sharing": native_sharing,
    "Exclusive windows": windows,
    "Timing events": timing_events,
}


def main() -> int:
    """Print all rows; 0 whether or not they hold: a busy machine moves figures, and a benchmark is no timed test."""
    parser = argparse.ArgumentParser(description="Compare the simulated H200 with measurements of a real one.")
    parser.add_argument("--slowdown", type=int, default=20, help="how many times slower the boards' clock runs (20)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of the boards' clock, for each measurement (0.3)")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="jvgpu-facts-") as folder:
        board = Board(Path(folder), options.slowdown, options.seconds)
        for title, table in TABLES.items():
            print(f"\n{title:<62}{'H200':>9}{'here':>9}")
            for row in table(board):
                rows.append(row)
                mark = "" if row.holds else f"   more than 3 points apart{row.remark and ': ' + row.remark}"
                print(f"{row.name:<62}{row.measured:>9.1f}{row.simulated:>9.1f}{mark}", flush=True)
    holding = sum(row.holds for row in rows)
    print(f"\n{holding} of {len(rows)} rows within 3 points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
