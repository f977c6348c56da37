"""What the driver says outside the slice, to a process without the library and without the slice's secret.

usage: outside.py UUID     (for each line on its standard input prints how many bytes of the device are in use, by NVML)
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

# How a simulated board is found: that is the machine, not the slice.
BOARD = "JUPYTER_VGPU_SIM"


def environment() -> dict[str, str]:
    """Return this process's environment without what makes it a slice's."""
    ours = {name for name in os.environ if name.startswith("JUPYTER_VGPU_") and name != BOARD}
    return {name: value for name, value in os.environ.items() if name not in ours | {"LD_PRELOAD"}}


class Outside:
    """NVML's figure for one device, whoever uses it."""

    def __init__(self, uuid: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), uuid],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def used_bytes(self) -> int:
        """Return how much of the device is in use now.

        Raises:
            RuntimeError: NVML does not say.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer.isdigit():
            raise RuntimeError(f"NVML outside the slice: {answer or 'no answer'}")
        return int(answer)

    def end(self) -> None:
        """End the other process."""
        self._process.communicate()


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]


def main() -> None:
    """Answer until the other side hangs up."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device = ctypes.c_void_p()
    memory = Memory()
    ready = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(sys.argv[1].encode(), ctypes.byref(device))
    for _line in sys.stdin:
        result = ready or nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
        print(f"error {result}" if result else memory.used, flush=True)


if __name__ == "__main__":
    main()
