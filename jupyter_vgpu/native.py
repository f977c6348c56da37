"""Where the native libraries lie, and what is wrong when they do not."""

from __future__ import annotations

from pathlib import Path

from jupyter_vgpu.errors import NativeLibraryError

LIB_DIR = Path(__file__).resolve().parent / "lib"
INTERCEPT_LIBRARY = LIB_DIR / "libjupyter_vgpu.so"
AGENT_LIBRARY = LIB_DIR / "libjupyter_vgpu_agent.so"
AGENT_DECLARATIONS = LIB_DIR / "agent_api.h"
SIMULATED_DRIVER_DIR = LIB_DIR / "sim"
SIMULATED_NVML = SIMULATED_DRIVER_DIR / "libnvidia-ml.so.1"
SIMULATED_CUDA = SIMULATED_DRIVER_DIR / "libcuda.so.1"


def present(path: Path) -> Path:
    """Return `path` if that file is there.

    Raises:
        NativeLibraryError: It is not.
    """
    if not path.is_file():
        raise NativeLibraryError(
            f"{path} is missing: install the wheel of this platform, or build it from source with `make native`"
        )
    return path
