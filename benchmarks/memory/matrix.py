"""The memory matrix: every way to get device memory x limited, counted, freed.

usage: matrix.py [--simulate BOARD] [--memory 1536MiB]

Goes each way of `ways.py` in a slice (`jupyter vgpu run`) of the machine's GPU or, where there is none or --simulate
says so, of a simulated board. Prints the table, writes it to benchmarks/results as JSON, and brings docs/memory.md up
to date (table.py).
Exit code 0 when every way is limited, counted and freed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from table import MARKS, PAGE, RESULTS, ROOT, page, summary

HERE = Path(__file__).resolve().parent
BOARD = "h200"
GROUPS = ("plain", "mapped", "graphs", "contexts", "shared")


def ways(group: str) -> list[dict[str, Any]]:
    """Return the rows of one group of ways, none gone yet."""
    listing = [sys.executable, str(HERE / "walk.py"), "--list", group]
    done = subprocess.run(listing, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ended(code: int) -> str:
    """Return how a walk ended that `jupyter vgpu run` says ended with `code`, 128 + n for signal n."""
    number = code - 128
    if number == signal.SIGALRM:
        return "took too long"
    if number in {each.value for each in signal.Signals}:
        return f"ended the process ({signal.Signals(number).name})"
    return f"ended the process (exit code {code})"


def walk(group: str, run: list[str]) -> list[dict[str, Any]]:
    """Return the outcomes of one group of ways, gone in a slice of their own.

    The way in which a walk ends, by a signal or otherwise, has failed; those after it are gone in a new slice.

    Args:
        group: The group.
        run: The command that runs another in a new slice.
    """
    rows = ways(group)
    outcomes: list[dict[str, Any]] = []
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    while len(outcomes) < len(rows):
        done = subprocess.run(
            [*run, "--", sys.executable, str(HERE / "walk.py"), group, str(len(outcomes))],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        outcomes += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if len(outcomes) < len(rows):
            outcomes.append({**rows[len(outcomes)], "note": ended(done.returncode)})
    return outcomes


def device_name(board: str | None) -> str:
    """Return what the results are called after."""
    if board:
        return f"simulated {board.upper()}"
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0].strip()


def print_table(outcomes: list[dict[str, Any]]) -> None:
    """Print a line for each way, headed by its family."""
    family = ""
    print(f"{'':58}{'limited':>9}{'counted':>9}{'freed':>9}{'MiB':>7}{'beyond':>8}")
    for outcome in outcomes:
        if outcome["family"] != family:
            family = outcome["family"]
            print(family)
        if outcome["gone"]:
            cells = "".join(f"{'yes' if outcome[mark] else 'NO':>9}" for mark in MARKS)
            sizes = f"{outcome['charged_bytes'] >> 20:7}{outcome['beyond_bytes'] >> 20:8}"
            by = "by NVML" if outcome["kind"] == "overhead" else ""
            print(f"  {outcome['name']:56}{cells}{sizes}  {by} {outcome['note']}".rstrip())
        else:
            print(f"  {outcome['name']:56}  {outcome['note']}")


def main() -> int:
    """Walk, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", metavar="BOARD", help=f"on a simulated board (without a GPU: {BOARD})")
    parser.add_argument("--memory", default="1536MiB", help="the slice's memory (default 1536MiB)")
    options = parser.parse_args()
    board = options.simulate or (None if Path("/dev/nvidiactl").exists() else BOARD)

    run = [sys.executable, "-m", "jupyter_vgpu.cli", "run", "--memory", options.memory]
    run += ["--simulate", board] if board else []
    outcomes = [outcome for group in GROUPS for outcome in walk(group, run)]

    device = device_name(board)
    print_table(outcomes)
    path = RESULTS / f"memory-{device.lower().replace(' ', '-')}.json"
    path.write_text(json.dumps({"device": device, "memory": options.memory, "ways": outcomes}, indent=1) + "\n")
    # The page says what was found last on each device.
    PAGE.write_text(page())
    print(f"written to {path} and {PAGE}")
    print(summary(outcomes))
    return 0 if all(outcome[mark] for outcome in outcomes if outcome["gone"] for mark in MARKS) else 1


if __name__ == "__main__":
    sys.exit(main())
