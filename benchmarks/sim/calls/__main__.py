"""Ask a driver some seven hundred calls, valid and invalid, and compare what two drivers answer.

    python benchmarks/sim/calls run OUT.json                  # on a machine with a GPU
    python benchmarks/sim/calls run OUT.json --simulate h200  # on a simulated board
    python benchmarks/sim/calls compare GPU.json SIMULATED.json

Nothing is changed for others: no setting, no MIG mode, no multicast object, a few MiB of memory. Each group of calls
runs in a process of its own; what ends a process is a result, too. It needs Python 3.10 and nothing else, apart from
`--simulate`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import devices
import memory
import nvml
import work
from asking import Asked, Group, fail, rows_of
from reasons import reason_for

CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
SECONDS = 120
GROUPS: dict[str, tuple[str, Group]] = {
    "starting": (CUDA, devices.starting),
    "entry points": (CUDA, devices.entry_points),
    "devices": (CUDA, devices.devices),
    "contexts": (CUDA, devices.contexts),
    "memory": (CUDA, memory.memory),
    "host memory": (CUDA, memory.host_memory),
    "pools": (CUDA, memory.pools),
    "virtual memory": (CUDA, memory.virtual),
    "streams": (CUDA, work.streams),
    "events": (CUDA, work.events),
    "captures": (CUDA, work.captures),
    "graphs": (CUDA, work.graphs),
    "functions": (CUDA, work.functions),
    "nvml: system": (NVML, nvml.system),
    "nvml: state": (NVML, nvml.state),
    "nvml: processes": (NVML, nvml.processes),
}


def ask_group(name: str, leave_out: list[tuple[str, str]]) -> int:
    """Ask one group in this process."""
    library, group = GROUPS[name]
    group(Asked(library, leave_out))
    return 0


def ask_in_process(name: str, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Ask one group in a process of its own; after a call that ends it, all others again in another."""
    ended: list[tuple[str, str]] = []
    while True:
        command = [sys.executable, Path(__file__).parent, "group", name, "--leave-out", json.dumps(ended)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False
        )  # fmt: skip
        told = list(rows_of(done.stdout))
        if done.returncode == 0:
            return told
        last = (told[-1]["name"], told[-1]["case"]) if told and told[-1]["result"] is None else None
        print(f"{name}: the process ended with {done.returncode} in {last}", file=sys.stderr)
        if last is None or last in ended:
            return told
        ended.append(last)


def ask_all(environment: dict[str, str]) -> list[dict[str, Any]]:
    """Ask all groups, each in a process of its own, and return what was answered."""
    rows: list[dict[str, Any]] = []
    for group in GROUPS:
        rows += [{"group": group} | row for row in ask_in_process(group, environment)]
    return rows


def run(out: Path, board: str | None) -> int:
    """Ask all, write it down, say how it agrees with NVIDIA's reference."""
    with tempfile.TemporaryDirectory(prefix="jvgpu-calls-") as folder:
        environment = dict(os.environ)
        if board is not None:
            from jupyter_vgpu.native import SIMULATED_DRIVER_DIR
            from jupyter_vgpu.sim import create_boards

            state = create_boards(Path(folder) / "state", board)
            environment |= {"JUPYTER_VGPU_SIM": str(state), "LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR)}
        rows = ask_all(environment)
    out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    documented = [row for row in rows if row["says"] is not None]
    apart = [row for row in documented if row["result"] != row["says"]]
    for row in apart:
        print(f"{row['name']}, {row['case']}: {row['result']}, the reference says {row['says']}")
    print(f"{len(rows)} calls; {len(documented) - len(apart)} of {len(documented)} as the reference says")
    return 0


def read(path: Path) -> dict[tuple[str, str, str], Any]:
    """Return the results in a file, by group, name and case."""
    rows = json.loads(path.read_text())
    results = {(row["group"], row["name"], row["case"]): row["result"] for row in rows}
    if len(results) != len(rows):
        fail(f"{path}: a name and a case of a group stand for two calls")
    return results


def compare(left: Path, right: Path) -> int:
    """Print what two drivers answer differently; 1 when a difference has no reason."""
    ours, theirs = read(left), read(right)
    unexplained = 0
    for key in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(key, "not asked"), theirs.get(key, "not asked")
        if one != other:
            reason = reason_for(*key)
            unexplained += reason is None
            print(f"{key[1]}, {key[2]} ({key[0]}): {one} and {other}: {reason or 'NO REASON IS KNOWN'}")
    alike = sum(theirs.get(key) == result for key, result in ours.items())
    print(f"{alike} of {len(ours.keys() | theirs.keys())} calls answer alike")
    return 1 if unexplained else 0


def main() -> int:
    """Run or compare."""
    parser = argparse.ArgumentParser(description="Ask a driver many calls, or compare what two answered.")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="ask all calls and write the answers to a file")
    running.add_argument("out", type=Path)
    running.add_argument("--simulate", metavar="BOARD", help="ask a simulated board, such as h200")
    comparing = commands.add_parser("compare", help="print what two files differ in")
    comparing.add_argument("left", type=Path)
    comparing.add_argument("right", type=Path)
    asking = commands.add_parser("group", help="ask one group in this process")
    asking.add_argument("name", choices=list(GROUPS))
    asking.add_argument("--leave-out", type=json.loads, default=[], metavar="JSON", help="names and cases not to ask")
    options = parser.parse_args()
    if options.command == "run":
        return run(options.out, options.simulate)
    return (
        compare(options.left, options.right)
        if options.command == "compare"
        else ask_group(options.name, [tuple(one) for one in options.leave_out])
    )


if __name__ == "__main__":
    sys.exit(main())
