"""What a slice says of the memory of two NCCL ranks, against what NVML says outside it, on two devices.

Starts an agent, and two ranks of an all-reduce loop in one claim of two devices; asks once a second while they work.
Two figures from inside: what NVML tells a program in the slice, and what the agent's API tells of the claim. One from
outside: what NVML, asked without the library, says the two processes have. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from bench.agent import NodeAgent, running_agent  # noqa: E402
from bench.machine import commit  # noqa: E402
from bench.processes import Worker  # noqa: E402
from governor.stage import native_environment  # noqa: E402
from governor.work import NCCL  # noqa: E402

from jupyter_vgpu.client import GrantedClaim  # noqa: E402
from jupyter_vgpu.sim import create_boards  # noqa: E402

RANKS = 2
LIMIT_BYTES = 16 << 30
# What the two figures may differ by: the greater of both.
PART, LEAST_BYTES = 0.02, 64 << 20
READY_SECONDS, ANSWER_SECONDS = 120.0, 60.0
# The agent knows a context's overhead half a second to one and a half after it was made (docs/contracts.md).
SETTLE_SECONDS = 3.0
# Of the switch between GPUs, which other machines' programs may share.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
ASK = """
import json, sys, pynvml
pynvml.nvmlInit()
for line in sys.stdin:
    told = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        board = pynvml.nvmlDeviceGetHandleByIndex(index)
        rows = pynvml.nvmlDeviceGetComputeRunningProcesses(board)
        used = pynvml.nvmlDeviceGetMemoryInfo(board).used
        told[pynvml.nvmlDeviceGetUUID(board)] = {"used": used, "of": {row.pid: row.usedGpuMemory for row in rows}}
    print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True)
class Look:
    """What each says of one device at one moment, in bytes.

    Attributes:
        uuid: Of the device.
        inside: What NVML says in the slice.
        api: What the agent says of the claim.
        overhead: What of that no call showed.
        outside: What NVML says outside of the ranks' processes.
    """

    uuid: str
    inside: int
    api: int
    overhead: int
    outside: int

    @property
    def off_bytes(self) -> int:
        """The greatest difference from outside."""
        return max(abs(self.inside - self.outside), abs(self.api - self.outside))

    @property
    def is_within(self) -> bool:
        """Whether both figures from inside are as near as they have to be, and there is anything to compare."""
        return self.outside > 0 and self.off_bytes <= max(PART * self.outside, LEAST_BYTES)


@contextmanager
def asker(name: str, environment: Mapping[str, str], folder: Path) -> Iterator[Worker]:
    """Run a program that says at each word what NVML tells it."""
    worker = Worker(name, [sys.executable, "-c", ASK], environment, folder / f"{name}.log")
    try:
        yield worker
    finally:
        worker.end()


def looks(inside: Worker, outside: Worker, agent: NodeAgent, granted: GrantedClaim, pids: set[int]) -> list[Look]:
    """Return what each says of each device of the claim, now."""
    for worker in (inside, outside):
        worker.tell("now")
    shown, truth = inside.hear_json(ANSWER_SECONDS), outside.hear_json(ANSWER_SECONDS)
    usage = agent.hub.usage(granted.claim["claim"])
    return [
        Look(
            uuid=device["uuid"],
            inside=shown[device["uuid"]]["used"],
            api=device["memory_used_bytes"],
            overhead=device["memory_overhead_bytes"],
            outside=sum(used for pid, used in truth[device["uuid"]]["of"].items() if int(pid) in pids),
        )
        for device in usage["devices"]
    ]


def measure(folder: Path, environment: Mapping[str, str], seconds: float, is_simulated: bool) -> list[list[Look]]:
    """Return the looks at two ranks that work for so long; shape (looks, devices).

    Raises:
        WorkerError: A rank, the agent or NVML did not start or did not answer in time.
    """
    work = NCCL.simulated if is_simulated and NCCL.simulated else NCCL
    with ExitStack() as stack:
        agent = stack.enter_context(running_agent(folder, environment))
        granted = agent.claim("ranks", Fraction(1, 2), memory_bytes=LIMIT_BYTES, devices=RANKS)
        stack.callback(agent.release, granted)
        settings = {**environment, **NO_MULTICAST, "MASTER_PORT": str(_free_port())}
        in_slice = granted.edits.applied_to(settings)
        ranks = []
        for rank in range(RANKS):
            worker = Worker(f"rank {rank}", work.command(Path()), in_slice, folder / f"rank-{rank}.log")
            stack.callback(worker.end)
            worker.tell(f"rank {rank}")
            ranks.append(worker)
        for worker in ranks:
            worker.hear(READY_SECONDS)
        inside = stack.enter_context(asker("inside", in_slice, folder))
        outside = stack.enter_context(asker("outside", environment, folder))
        for worker in ranks:
            worker.tell(f"run {seconds + SETTLE_SECONDS} {time.monotonic():.6f}")
        time.sleep(SETTLE_SECONDS)
        pids = {worker.process.pid for worker in ranks}
        found = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found.append(looks(inside, outside, agent, granted, pids))
            time.sleep(1.0)
        for worker in ranks:
            worker.hear_json(seconds + ANSWER_SECONDS)
        return found


def table(found: Sequence[Sequence[Look]]) -> str:
    """Return the worst look at each device as text, and how many were within the bounds."""
    mib = 1 << 20
    lines = [f"{'device':46}{'inside':>9}{'API':>9}{'overhead':>9}{'outside':>9}{'off':>7}  MiB, the worst look"]
    for device in zip(*found, strict=True):
        worst = max(device, key=lambda look: look.off_bytes)
        figures = (worst.inside, worst.api, worst.overhead, worst.outside)
        lines.append(
            f"{worst.uuid:46}{''.join(f'{figure // mib:9}' for figure in figures)}{worst.off_bytes / mib:7.1f}"
        )
    flat = [look for moment in found for look in moment]
    lines.append(f"{sum(look.is_within for look in flat)} of {len(flat)} looks within 2 % or 64 MiB")
    return "\n".join(lines)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(arguments: Sequence[str]) -> int:
    """Measure; 0 if every look was within the bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", metavar="BOARDS", help='on simulated boards, as "2xh200": no NCCL there')
    parser.add_argument("--seconds", type=float, default=20.0, help="for how long to look (20)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the looks as JSON")
    parser.add_argument("--commit", default=commit(), help="what is measured, for the record (from git)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jvgpu-ranks-") as name:
        folder = Path(name)
        state = create_boards(folder / "boards", options.simulate) if options.simulate else None
        found = measure(folder, native_environment(state), options.seconds, state is not None)
    is_within = all(look.is_within for moment in found for look in moment)
    if options.out:
        told = [[{**asdict(look), "is_within": look.is_within} for look in moment] for moment in found]
        record = {"commit": options.commit, "processors": os.cpu_count(), "is_within": is_within, "looks": told}
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(table(found))
    return 0 if found and is_within else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
