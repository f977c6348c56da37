"""What a node agent costs: its CPU seconds per second, thread by thread, with no, idle and busy tenants.

    python benchmarks/agent_load.py --seconds 10 [--out FILE]

On a simulated board. *Idle* tenants have a context and launch nothing; *busy* ones launch 20 µs kernels back to back.
What is printed is the agent's, in hundredths of one core; tenants are not part of it. A machine that is busy with
something else makes each second of work longer (caches, shared cores) and each waking shorter (no core sleeps), so the
load beside is printed as well, and how often each thread was woken, which depends on neither. The simulated NVML is
part of the agent: it reads a file of /proc for each process it lists.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from bench.agent import NodeAgent  # noqa: E402
from bench.machine import Card  # noqa: E402
from governor.stage import OURS, Stage, native_environment  # noqa: E402
from governor.work import BURN, IDLE, equal  # noqa: E402

from jupyter_vgpu.sim import create_boards  # noqa: E402

BOARD = "h200"
# After the last process has attached: what it costs to come is not what it costs to be there, and an agent is at rest
# once nothing has happened for four seconds.
SETTLE_SECONDS = 8.0
# Issue 6: with eight busy tenants, and with fifty idle ones.
TARGETS = {"8 busy": 3.0, "50 idle": 0.5}

# The agent, and beside it a thread that says which of its threads is which when it is asked.
AGENT = """
import json, sys, threading
def tell():
    for _ in sys.stdin:
        print(json.dumps({thread.native_id: thread.name for thread in threading.enumerate()}), flush=True)
threading.Thread(target=tell, name="benchmark", daemon=True).start()
from jupyter_vgpu.cli import main
sys.exit(main(sys.argv[1:]))
"""


class WatchedAgent(NodeAgent):
    """An agent that says what its threads are called."""

    program = ("-c", AGENT)
    pipes = subprocess.PIPE

    def names(self) -> dict[int, str]:
        """Return its threads' names by id."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        told: dict[str, str] = json.loads(self.process.stdout.readline())
        return {int(thread): name for thread, name in told.items()}

    def thread_seconds(self) -> dict[int, float]:
        """Return the processor time of each of its threads so far, in seconds.

        Source: Linux, Documentation/scheduler/sched-stats.rst, /proc/pid/schedstat, first field, ns.
        """
        assert self.process is not None
        seconds = {}
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            seconds[int(thread.name)] = int((thread / "schedstat").read_text().split()[0]) / 1e9
        return seconds

    def thread_wakings(self) -> dict[int, int]:
        """Return how often each of its threads has gone to sleep so far, and so was woken.

        Source: proc_pid_status(5), voluntary_ctxt_switches.
        """
        assert self.process is not None
        wakings = {}
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            status = (thread / "status").read_text()
            wakings[int(thread.name)] = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
        return wakings


@dataclass(frozen=True)
class Load:
    """What each of an agent's threads takes, by name.

    Attributes:
        percents: Of a core, in hundredths.
        wakings: Each second.
    """

    percents: Mapping[str, float]
    wakings: Mapping[str, float]


def rates(
    names: Mapping[int, str], before: Mapping[int, float], after: Mapping[int, float], took: float
) -> dict[str, float]:
    """Return how much a figure of each thread grew in a second, by the threads' names."""
    grown: dict[str, float] = {}
    for thread, total in after.items():
        name = names.get(thread, "others")
        grown[name] = grown.get(name, 0.0) + (total - before.get(thread, 0)) / took
    return grown


def measured(agent: WatchedAgent, seconds: float) -> Load:
    """Return what the agent takes, over so many seconds."""
    names = agent.names()
    before, woken_before, begun = agent.thread_seconds(), agent.thread_wakings(), time.monotonic()
    time.sleep(seconds)
    after, woken_after, took = agent.thread_seconds(), agent.thread_wakings(), time.monotonic() - begun
    shares = rates(names, before, after, took)
    return Load({name: 100 * share for name, share in shares.items()}, rates(names, woken_before, woken_after, took))


def row(stage: Stage, agent: WatchedAgent, count: int, is_busy: bool, seconds: float) -> Load:
    """Return the same with so many tenants there."""
    tenants = equal(BURN if is_busy else IDLE, count) if count else ()
    with stage.crew(OURS, tenants) as crew:
        crew.wait_ready()
        told_seconds = SETTLE_SECONDS + seconds + 2.0
        if is_busy:
            crew.begin(told_seconds)
        time.sleep(SETTLE_SECONDS)
        load = measured(agent, seconds)
        if is_busy:
            crew.end_run(told_seconds)
    return load


def line(name: str, load: Load) -> str:
    """Return one row of the table."""
    target = f"(at most {TARGETS[name]:g})" if name in TARGETS else ""
    threads = ", ".join(
        f"{thread} {part:.2f} in {load.wakings[thread]:.0f}"
        for thread, part in sorted(load.percents.items(), key=lambda each: -each[1])
        if load.wakings[thread] >= 0.5
    )
    total, wakings = sum(load.percents.values()), sum(load.wakings.values())
    return f"{name:8} {total:6.2f} % of a core {target:14} {wakings:5.0f} wakings a second: {threads}"


def main(arguments: list[str]) -> int:
    """Measure each row once; 0 whether or not the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each row is measured (10)")
    parser.add_argument("--idle", type=int, nargs="*", default=[0, 10, 50], help="rows of idle tenants (0 10 50)")
    parser.add_argument("--busy", type=int, nargs="*", default=[8], help="rows of busy tenants (8)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the table as JSON")
    options = parser.parse_args(arguments)
    rows = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jvgpu-load-")))
        environment = native_environment(create_boards(folder / "boards", BOARD))
        agent = WatchedAgent(folder, environment)
        stack.callback(agent.stop)
        agent.start()
        stage = Stage(Card(f"simulated {BOARD}", "simulated", 1), folder, agent, environment, True)
        for count, is_busy in [*((idle, False) for idle in options.idle), *((busy, True) for busy in options.busy)]:
            name = f"{count} {'busy' if is_busy else 'idle'}"
            rows[name] = row(stage, agent, count, is_busy, options.seconds)
            print(line(name, rows[name]), flush=True)
    told = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        "load": os.getloadavg()[0],
        "unit": "% of a core",
        "targets": TARGETS,
        "rows": {
            name: {"total": sum(load.percents.values()), "threads": load.percents, "wakings_per_second": load.wakings}
            for name, load in rows.items()
        },
    }
    print(f"load of the machine: {told['load']:.1f} on {os.cpu_count()} cores")
    if options.out is not None:
        options.out.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
