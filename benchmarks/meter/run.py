"""How far the meter is from the truth: tenants with known work, metered by a real agent.

usage: run.py [--only launches|shapes|training|waits] [--match TEXT] [--seconds 1.5] [--budget SECONDS] [--out DIR]

Each tenant measures its work alone, one after the other; then all work together, and what the agent
says they had is compared with units × time alone. Beside the meter stand the figures that others go
by: NVML's per-process utilisation, and wall time divided among the tenants. Rows already in today's
file from the same commit are skipped, so that a run cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent), str(HERE)]

import cases  # noqa: E402
import estimators  # noqa: E402
from bench.agent import NodeAgent, running_agent  # noqa: E402
from bench.machine import card, commit  # noqa: E402
from bench.processes import Worker, WorkerError  # noqa: E402

LEARN_SECONDS = 1.0
SETTLE_SECONDS = 0.4
ANSWER_SECONDS = 180.0


class Tenant:
    """One claim and the worker in it."""

    def __init__(self, agent: NodeAgent, number: int, command: list[str], log: Path) -> None:
        """Claim a tenth of the GPU and start the worker in it."""
        self._agent = agent
        self.granted = agent.claim(f"t{number}", Fraction(1, 10), memory_bytes=12 << 30)
        environment = self.granted.edits.applied_to(dict(os.environ))
        self.worker = Worker(f"tenant {number}", command, environment, log)
        self.process = self.worker.process

    def tell(self, line: str) -> None:
        """Send one request."""
        self.worker.tell(line)

    def hear(self) -> list[float]:
        """Return the figures of one answer."""
        return [float(word) for word in self.worker.hear(ANSWER_SECONDS).split() if word != "ready"]

    def end(self) -> None:
        """End the worker and give the claim back."""
        self.worker.end()
        self._agent.release(self.granted)


def measure(agent: NodeAgent, case: cases.Case, scratch: Path, seconds: float) -> dict[str, object]:
    """Return the row of one case."""
    work_program = str(scratch / "work")
    workers = {"work": [work_program], "train": [sys.executable, str(HERE / "train_work.py")]}
    command = [*workers[case.command[0]], *case.command[1:]]
    neighbour = [work_program, "burn", "20"]
    with ExitStack() as cleanup:
        tenants = []
        for number in range(case.tenants + case.neighbours):
            doing = command if number < case.tenants else neighbour
            tenant = Tenant(agent, number, doing, scratch / f"{number}.log")
            cleanup.callback(tenant.end)
            tenants.append(tenant)
        for tenant in tenants:
            tenant.hear()
        alone = []
        for tenant in tenants:
            tenant.tell("solo")
            alone.append(tenant.hear())
        alone_ns = [figures[0] for figures in alone]
        for tenant in tenants:
            tenant.tell(f"run {LEARN_SECONDS}")
        for tenant in tenants:
            tenant.hear()
        time.sleep(SETTLE_SECONDS)

        running = [kind(agent.hub, tenants, seconds) for kind in estimators.ALL]
        for estimator in running:
            estimator.start()
        for tenant in tenants:
            tenant.tell(f"run {seconds}")
        for estimator in running:
            estimator.watch()
        answers = [tenant.hear() for tenant in tenants]
        time.sleep(SETTLE_SECONDS)
        said = {estimator.name: estimator.stop() for estimator in running}

    measured = range(case.tenants)
    if case.quantity == "wait":
        known = [answers[i][2] / 1e9 for i in measured]
        metered = said["meter waited"]
    else:
        known = [answers[i][0] * alone_ns[i] / 1e9 for i in measured]
        metered = said["meter"]
    errors = [metered[i] / known[i] - 1 for i in measured]
    worst = max(errors, key=abs)
    others = {
        name: round(max((figures[i] / known[i] - 1 for i in measured), key=abs), 4)
        for name, figures in said.items()
        if not name.startswith("meter") and case.quantity == "gpu_time"
    }
    return {
        "case": case.name,
        "tenants": case.tenants,
        "neighbours": case.neighbours,
        "quantity": case.quantity,
        "alone_us": round(alone_ns[0] / 1e3, 2),
        # Other ways to measure the same, where the worker knows some.
        "alone_otherwise_us": [round(figure / 1e3, 2) for figure in alone[0][1:]],
        "known_seconds": [round(figure, 5) for figure in known],
        "metered_seconds": [round(metered[i], 5) for i in measured],
        "wall_seconds": round(max(answer[1] for answer in answers), 4),
        "error": round(worst, 4),
        "others_errors": others,
        "target": case.target,
        "met": abs(worst) <= case.target,
    }


def main() -> int:
    """Measure what is still missing, print and write each row as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=sorted(cases.ALL), action="append", help="one group of cases; may be repeated"
    )
    parser.add_argument("--match", action="append", help="cases whose name begins like this; may be repeated")
    parser.add_argument("--tenants", type=int, action="append", help="cases of so many tenants; may be repeated")
    parser.add_argument("--seconds", type=float, default=1.5, help="of work measured in each case (default 1.5)")
    parser.add_argument(
        "--budget", type=float, default=540, help="seconds after which no further case is begun (default 540)"
    )
    parser.add_argument("--commit", default=commit(), help="what is measured, for the record")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()

    begun = time.monotonic()
    device = card()
    date = time.strftime("%Y-%m-%d")
    path = options.out / f"meter-{date}-{device.file_name}.json"
    options.out.mkdir(parents=True, exist_ok=True)
    result = (
        json.loads(path.read_text())
        if path.exists()
        else {"date": date, "card": device.name, "driver": device.driver, "rows": []}
    )
    done = {
        (row["case"], row["tenants"], row["neighbours"]) for row in result["rows"] if row["commit"] == options.commit
    }
    wanted = [case for group in (options.only or cases.ALL) for case in cases.ALL[group]()]
    wanted = [
        case
        for case in wanted
        if (options.match is None or case.name.startswith(tuple(options.match)))
        and (options.tenants is None or case.tenants in options.tenants)
        and (case.name, case.tenants, case.neighbours) not in done
    ]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subprocess.run(["nvcc", "-O2", "-std=c++17", "-o", scratch / "work", HERE / "work.cu"], check=True)
        agent = stack.enter_context(running_agent(scratch, os.environ))
        for case in wanted:
            if time.monotonic() - begun > options.budget:
                print("out of budget; run again to go on")
                break
            try:
                row = measure(agent, case, scratch, options.seconds)
            except WorkerError as error:
                print(f"{case.name}, {case.tenants} tenants: {error}")
                continue
            result["rows"].append({**row, "commit": options.commit})
            path.write_text(json.dumps(result, indent=1) + "\n")
            print(
                f"{row['case']:36} {row['tenants']}+{row['neighbours']}  alone {row['alone_us']:>10} us"
                f"  error {row['error']:+.2%} (target {row['target']:.0%}) {'met' if row['met'] else 'NOT MET':8}"
                f" {row['others_errors']}",
                flush=True,
            )
    print(f"{sum(row['met'] for row in result['rows'])} of {len(result['rows'])} met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
