"""What a launch costs more with the library: measured round the simulated driver's launch that does next to nothing.

On a GPU the noise of the driver's own launch, ±300 ns, hides it (FACTS.md).
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.columns import measure
from bench.machine import ROOT
from bench.processes import WorkerError

from governor.experiment import Experiment
from governor.peers import Peer
from governor.rows import Row, Target
from governor.stage import Stage

CALL = "launch"
REPEATS = 3
MOST_NS = 50.0


class HookCost(Experiment):
    """A null launch past the hook and through it, in turns, in one process (benchmarks/costs/hook_calls.c)."""

    name = "hook"
    group = "alone"

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        return 20.0

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its row."""
        program = stage.folder / "hook_calls"
        compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
        source = ROOT / "benchmarks" / "costs" / "hook_calls.c"
        command = [sys.executable, "-m", "jupyter_vgpu.cli", "run", "--simulate", "h200", "--memory", "16GiB", "--"]
        environment = {name: value for name, value in stage.environment.items() if name != "JUPYTER_VGPU_SIM"}
        environment["PYTHONPATH"] = f"{ROOT}:{environment.get('PYTHONPATH', '')}"
        try:
            subprocess.run([compiler, "-O2", "-o", program, source, "-ldl"], check=True)
            runs = [measure([*command, str(program)], environment)[CALL] for _ in range(REPEATS)]
        except subprocess.SubprocessError as error:
            raise WorkerError(f"hook_calls: {error}") from error
        past, through = (statistics.median(run[place] for run in runs) for place in (0, 1))
        added = [run[1] - run[0] for run in runs]
        return [self._row(statistics.median(added), runs=added, detail={"past_it_ns": past, "through_it_ns": through})]

    def failed(self, why: str) -> list[Row]:
        """Return its row for when `measure` raised."""
        return [self._row(None, error=why)]

    def _row(self, ours: float | None, **more: object) -> Row:
        target = Target("at most", MOST_NS)
        return Row(self.name, "the hook's own cost of a launch", 1, ours, None, "ns", target, **more)  # type: ignore[arg-type]
