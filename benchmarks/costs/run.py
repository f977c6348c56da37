"""What the library costs: driver calls with and without it, in one run.

usage: run.py [--simulate BOARD] [--alternations N] [--memory 16GiB] [--live 100000] [--out DIR]

Two programs. hook_calls.c makes each call through the hook and past it, in turns, in one process: the
hooks' own cost, on a GPU or, with --simulate, round the simulated driver's calls that do next to
nothing. driver_calls.cu (on a GPU, needs nvcc) makes the CUDA runtime's calls as programs do, in
processes without and with the library, alternately: the sum, under the differences between processes.
The hooks are measured again beside many live allocations: what they cost must not grow. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from bench.columns import measure  # noqa: E402
from bench.machine import card  # noqa: E402

# Added cost aimed at, ns, by case: issue 2 of the project.
AIMS_NS = {
    "cudaMalloc + cudaFree, 1 MiB": 1000.0,
    "cudaMalloc + cudaFree, 64 MiB": 1000.0,
    "cudaMallocAsync + cudaFreeAsync, 1 MiB": 100.0,
}
HOOK_AIMS_NS = {
    "launch": 50.0,
    "cuMemAlloc + cuMemFree, 1 MiB": 1000.0,
    "cuMemAlloc + cuMemFree, 64 MiB": 1000.0,
    "cuMemAllocAsync + cuMemFreeAsync, 1 MiB": 100.0,
}


@dataclass(frozen=True)
class Row:
    """One kind of call.

    Attributes:
        native_ns: Best of the alternations, without the library: other people's noise only ever adds.
        ours_ns: The same with it.
        added_ns: What the library adds.
        spread_ns: Largest difference between two native alternations: what is noise.
        native_runs_ns, ours_runs_ns: Every alternation, in order.
        aim_ns: Most that may be added; `None` where no aim is set but "within the noise".
        met: Whether the added cost is within the aim, or within the noise.
    """

    name: str
    native_ns: float
    ours_ns: float
    added_ns: float
    spread_ns: float
    native_runs_ns: list[float]
    ours_runs_ns: list[float]
    aim_ns: float | None
    met: bool


def rows_of(native: list[dict[str, float]], ours: list[dict[str, float]], aims: Mapping[str, float]) -> list[Row]:
    """Return one row for each kind of call that was measured."""
    rows = []
    for name in native[0]:
        natives, with_us = ([run[name] for run in runs] for runs in (native, ours))
        added = min(with_us) - min(natives)
        spread = max(natives) - min(natives)
        aim = aims.get(name)
        rows.append(
            Row(
                name=name,
                native_ns=min(natives),
                ours_ns=min(with_us),
                added_ns=round(added, 1),
                spread_ns=round(spread, 1),
                native_runs_ns=natives,
                ours_runs_ns=with_us,
                aim_ns=aim,
                met=added <= (spread if aim is None else aim),
            )
        )
    return rows


def options_of() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", metavar="BOARD", help="measure round the simulated driver instead of a GPU")
    parser.add_argument(
        "--alternations", type=int, default=3, metavar="N", help="natively, with us, natively, ... (default 3)"
    )
    parser.add_argument("--memory", default="16GiB", help="the slice's memory (default 16GiB)")
    parser.add_argument(
        "--live", type=int, default=100_000, metavar="N", help="live allocations beside which hooks are measured again"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="where the JSON goes")
    options = parser.parse_args()
    if options.alternations < 1 or options.live < 0:
        parser.error("--alternations is at least 1, --live at least 0")
    return options


def measured(options: argparse.Namespace, scratch: Path) -> list[Row]:
    """Measure natively and with us in turns, and return what came of it.

    Args:
        options: Of the command line.
        scratch: Where the programs are built.
    """
    run = [sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", options.memory]
    run += ["--simulate", options.simulate] if options.simulate else []
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    hook_calls, driver_calls = str(scratch / "hook_calls"), str(scratch / "driver_calls")
    subprocess.run(["cc", "-O2", "-o", hook_calls, HERE / "hook_calls.c", "-ldl"], check=True)
    if not options.simulate:
        subprocess.run(
            ["nvcc", "-O2", "-std=c++17", "-o", driver_calls, HERE / "driver_calls.cu", "-lcuda"], check=True
        )
    past: list[dict[str, float]] = []
    through: list[dict[str, float]] = []
    native: list[dict[str, float]] = []
    ours: list[dict[str, float]] = []
    for _ in range(options.alternations):
        columns = measure([*run, "--", hook_calls], environment)
        for name, figures in measure([*run, "--", hook_calls, str(options.live)], environment).items():
            columns[f"{name}, {options.live:,} live"] = figures
        past.append({name: figures[0] for name, figures in columns.items()})
        through.append({name: figures[1] for name, figures in columns.items()})
        if not options.simulate:
            for runs, command in ((native, [driver_calls]), (ours, [*run, "--", driver_calls])):
                runs.append({name: figures[0] for name, figures in measure(command, environment).items()})
    aims = HOOK_AIMS_NS | {f"{name}, {options.live:,} live": aim for name, aim in HOOK_AIMS_NS.items()}
    return rows_of(past, through, aims) + (rows_of(native, ours, AIMS_NS) if native else [])


def print_rows(rows: Sequence[Row], device: str, driver: str) -> None:
    """Print a table of `rows`, and how many meet their aim."""
    print(f"{'':56}{'native':>10}{'with us':>10}{'added':>9}{'noise':>9}{'aim':>8}   ns, {device}, driver {driver}")
    for row in rows:
        aim = "noise" if row.aim_ns is None else f"{row.aim_ns:.0f}"
        print(
            f"{row.name:56}{row.native_ns:10.0f}{row.ours_ns:10.0f}{row.added_ns:9.1f}{row.spread_ns:9.1f}{aim:>8}   "
            f"{'met' if row.met else 'NOT MET'}"
        )
    print(f"{sum(row.met for row in rows)} of {len(rows)} met")


def main() -> int:
    """Measure, print, write; 0 whether or not the aims are met."""
    options = options_of()
    real = None if options.simulate else card()
    device, driver = (real.name, real.driver) if real else (f"simulated {options.simulate}", "simulated")
    with tempfile.TemporaryDirectory() as scratch:
        rows = measured(options, Path(scratch))
    print_rows(rows, device, driver)
    options.out.mkdir(parents=True, exist_ok=True)
    date = time.strftime("%Y-%m-%d")
    result = {
        "date": date,
        "card": device,
        "driver": driver,
        "alternations": options.alternations,
        "rows": [asdict(row) for row in rows],
    }
    path = options.out / f"costs-{date}-{device.replace(' ', '-').lower()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
