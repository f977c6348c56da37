"""Many processes on one simulated board, killed at random: does anything hang, leak or stay behind?

    python benchmarks/sim/churn.py --seconds 600

Ends with 0 when every process went on working all the time, none was answered anything a well board would not
answer, and afterwards the board is as it was: nothing used, nobody listed, all of it to be had.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jupyter_vgpu.native import SIMULATED_DRIVER_DIR
from jupyter_vgpu.sim import create_boards

HERE = Path(__file__).resolve().parent
STUCK_SECONDS = 60.0  # a machine may be busy; a process that hangs does nothing for ever


class Churn:
    """A board, its tenants, and what they have done."""

    def __init__(self, folder: Path, processes: int, seed: int) -> None:
        """Compile the tenant and make the board."""
        self.folder = folder
        self.random = random.Random(seed)
        self.state = create_boards(folder / "state", "a100-80")
        (folder / "progress").write_bytes(bytes(4096))
        self.progress_file = (folder / "progress").open("r+b")
        self.progress = mmap.mmap(self.progress_file.fileno(), 4096)
        self.tenants: list[subprocess.Popen[bytes] | None] = [None] * processes
        self.seen = [(0, 0.0)] * processes
        self.started = self.killed = self.done = 0
        compiler = shutil.which("cc") or "gcc"
        command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", folder / "churn", HERE / "churn.c"]
        subprocess.run([*command, f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-lpthread"], check=True)

    def environment(self) -> dict[str, str]:
        """Return what a tenant finds the board by."""
        return os.environ | {
            "JUPYTER_VGPU_SIM": str(self.state),
            "LD_LIBRARY_PATH": str(SIMULATED_DRIVER_DIR),
            "FUNCTION": "sim_busy_100us",
        }

    def start(self, place: int) -> None:
        """Start a tenant."""
        struct.pack_into("=Q", self.progress, place * 8, 0)
        self.tenants[place] = subprocess.Popen(
            [self.folder / "churn", self.folder / "progress", str(place), str(self.random.randrange(1 << 30))],
            env=self.environment(),
        )
        self.seen[place] = (0, time.monotonic())
        self.started += 1

    def kill(self, place: int) -> None:
        """Kill a tenant, at whatever it is."""
        tenant = self.tenants[place]
        assert tenant is not None
        tenant.kill()
        tenant.wait()
        self.killed += 1
        self.done += struct.unpack_from("=Q", self.progress, place * 8)[0]

    def check(self) -> None:
        """Raise when a tenant ended by itself or has not done anything for long."""
        now = time.monotonic()
        for place, tenant in enumerate(self.tenants):
            count = struct.unpack_from("=Q", self.progress, place * 8)[0]
            if tenant is not None and tenant.poll() is not None:
                raise SystemExit(f"tenant {place} ended with {tenant.returncode}")
            if count != self.seen[place][0]:
                self.seen[place] = (count, now)
            elif now - self.seen[place][1] > STUCK_SECONDS:
                raise SystemExit(f"tenant {place} has done nothing for {STUCK_SECONDS} s")

    def run(self, seconds: float) -> None:
        """Start all, kill one every 50 ms or so, and start another in its place."""
        for place in range(len(self.tenants)):
            self.start(place)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0, 0.1))
            place = self.random.randrange(len(self.tenants))
            self.kill(place)
            self.start(place)
            self.check()

    def end(self) -> None:
        """Kill all that still run."""
        for place, tenant in enumerate(self.tenants):
            if tenant is not None and tenant.poll() is None:
                self.kill(place)


def board_after(state: Path) -> dict[str, Any]:
    """Return what NVML says of the board: bytes used, processes."""
    os.environ["JUPYTER_VGPU_SIM"] = str(state)
    library = ctypes.CDLL(str(SIMULATED_DRIVER_DIR / "libnvidia-ml.so.1"))
    handle = ctypes.c_void_p()
    memory = (ctypes.c_uint64 * 5)()
    ctypes.cast(memory, ctypes.POINTER(ctypes.c_uint32))[0] = 40 | 2 << 24
    count = ctypes.c_uint(0)
    library.nvmlInit_v2()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    library.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory))
    library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None)
    return {"used": memory[4], "processes": count.value}


def shared_memory() -> set[str]:
    """Return the files of this project in shared memory; others come and go by themselves."""
    return {path.name for path in Path("/dev/shm").iterdir() if "vgpu" in path.name}


def main() -> int:
    """Run, then look at what is left."""
    parser = argparse.ArgumentParser(description="Many processes on one simulated board, killed at random.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path, help="also write the figures to this file, as JSON")
    options = parser.parse_args()
    in_memory = shared_memory()
    with tempfile.TemporaryDirectory(prefix="jvgpu-churn-") as folder:
        churn = Churn(Path(folder), options.processes, options.seed)
        try:
            churn.run(options.seconds)
        finally:
            churn.end()
        left = board_after(churn.state)
    residue = sorted(shared_memory() - in_memory)
    print(
        f"{churn.started} processes started, {churn.killed} killed, {churn.done} things done "
        f"in {options.seconds:.0f} s; "
        f"left: {left['used']} bytes, {left['processes']} processes, files in /dev/shm: {residue or 'none'}"
    )
    if options.out is not None:
        figures = {"processes": options.processes, "seconds": options.seconds, "seed": options.seed}
        figures |= {"started": churn.started, "killed": churn.killed, "done": churn.done}
        options.out.write_text(json.dumps(figures | {"left": left, "residue": residue}, indent=1) + "\n")
    return 0 if left == {"used": 0, "processes": 0} and not residue else 1


if __name__ == "__main__":
    sys.exit(main())
