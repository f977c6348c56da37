"""How far the meter is from the truth: tenants with known work, metered by a real agent.

All work together for a second, so that the meter learns and the clocks are what they are under load. Then each
tenant measures its work alone, one after the other, all work together, and each measures its work alone once more.
What the agent says they had in between is compared with units × time alone, the mean of before and after; how far
those two are apart is how sure the truth is, and stands beside the error ("±"). Beside the meter stand the figures
that others go by: NVML's per-process utilisation, wall time divided among the tenants and, of a lone tenant, how long
the device says it was active. Rows already in the file from the same commit are skipped, so that a run cut short
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent)]

from bench.agent import running_agent  # noqa: E402
from bench.machine import Card, card, commit  # noqa: E402
from bench.processes import WorkerError  # noqa: E402
from governor.stage import native_environment  # noqa: E402

from jupyter_vgpu.errors import BadValueError  # noqa: E402
from jupyter_vgpu.sim import create_boards, parse_boards  # noqa: E402
from meter import cases, known_work, lying, one_launch, table  # noqa: E402
from meter.tenants import Stage  # noqa: E402

KINDS = {"known_work": known_work.measure, "one_launch": one_launch.measure, "lying": lying.measure}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=sorted(cases.ALL), action="append", help="one group of cases; may be repeated"
    )
    parser.add_argument("--match", action="append", help="cases whose name begins like this; may be repeated")
    parser.add_argument("--tenants", type=int, action="append", help="cases of so many tenants; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the cases, and run none")
    parser.add_argument("--simulate", metavar="BOARD", help='on a simulated board, as "h200": shape, not figures')
    parser.add_argument("--seconds", type=float, default=1.5, help="of work measured in each case (default 1.5)")
    parser.add_argument(
        "--budget", type=float, default=540, help="seconds after which no further case is begun (default 540)"
    )
    parser.add_argument("--commit", default=commit(), help="what is measured, for the record")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the table")
    options = parser.parse_args(arguments)
    if options.simulate:
        try:
            parse_boards(options.simulate)
        except BadValueError as error:
            parser.error(f"--simulate: {options.simulate!r} is not known; {error.allowed}")
    if not wanted(options):
        parser.error("--only, --match and --tenants leave no case: `--list` names them")
    return options


def wanted(options: argparse.Namespace) -> list[cases.Case]:
    """Return the cases that the options name, in the order they are run."""
    return [
        case
        for group in (options.only or cases.ALL)
        for case in cases.ALL[group]()
        if (options.match is None or case.name.startswith(tuple(options.match)))
        and (options.tenants is None or case.tenants in options.tenants)
    ]


def run_all(stage: Stage, options: argparse.Namespace, result: dict[str, Any], path: Path) -> None:
    """Measure what is wanted and not done, as far as the budget goes; print and write each row as it comes."""
    begun = time.monotonic()
    done = {
        (row["case"], row["tenants"], row["neighbours"]) for row in result["rows"] if row["commit"] == options.commit
    }
    for case in wanted(options):
        if any((name, case.tenants, case.neighbours) in done for name in case.row_names):
            continue
        if time.monotonic() - begun > options.budget:
            print("out of budget; run again to go on")
            break
        if reason := stage.why_not(case):
            print(f"not run: {case.name}, {case.tenants} tenants: {reason}")
            continue
        case_begun = time.monotonic()
        try:
            rows = KINDS[case.kind](stage, case, options.seconds)
        except (WorkerError, subprocess.CalledProcessError) as error:
            print(f"{case.name}, {case.tenants} tenants: {error}")
            continue
        took = round(time.monotonic() - case_begun, 1)
        result["rows"] += [{**row, "commit": options.commit, "took_seconds": took} for row in rows]
        path.write_text(json.dumps(result, indent=1) + "\n")
        for row in rows:
            print(f"{table.line(row)} {took:4.0f} s  {table.clocks(row)}  {table.others(row)}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure what is still missing; 0 whether or not the targets are met."""
    options = parse(arguments)
    if options.list:
        for case in wanted(options):
            print(f"{case.tenants}+{case.neighbours}  {case.name}")
        return 0
    date = time.strftime("%Y-%m-%d")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jvgpu-meter-")))
        state = create_boards(folder / "boards", options.simulate) if options.simulate else None
        device = Card(f"simulated {options.simulate}", "simulated", 1) if options.simulate else card()
        path = options.out / f"meter-{date}-{device.file_name}.json"
        options.out.mkdir(parents=True, exist_ok=True)
        result: dict[str, Any] = (
            json.loads(path.read_text())
            if path.exists()
            else {"date": date, "card": device.name, "driver": device.driver, "rows": []}
        )
        environment = native_environment(state) if state else dict(os.environ)
        nvml: Any = None if state else import_module("pynvml")
        if nvml is not None:
            nvml.nvmlInit()
            stack.callback(nvml.nvmlShutdown)
        agent = stack.enter_context(running_agent(folder, environment))
        print(table.HEADING)
        run_all(Stage(agent, folder, environment, nvml), options, result, path)
    print(f"{sum(row['met'] for row in result['rows'])} of {len(result['rows'])} met")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
