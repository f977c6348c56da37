"""The devices that an agent serves: of the NVIDIA driver, or of a simulated board."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.inventory import chosen, read_devices
from jupyter_vgpu.model import Device
from jupyter_vgpu.native import INTERCEPT_LIBRARY, SIMULATED_NVML, present
from jupyter_vgpu.nvml import TIMEOUT_SECONDS, Nvml

SIM_VARIABLE = "JUPYTER_VGPU_SIM"
# For agents that nobody starts by hand, as `jupyter vgpu run` does.
DEVICES_VARIABLE = "JUPYTER_VGPU_DEVICES"
# The first to ask a driver that nobody uses waits until each device is set up: one to three seconds for each.
# source: NVIDIA Driver Persistence, "Background"
FIRST_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class NodeDevices:
    """What was found.

    Attributes:
        devices: At least one.
        simulated_state: State file of the simulated board; `None` on a real driver.
        nvml: Where they were found.
    """

    devices: list[Device]
    simulated_state: Path | None
    nvml: Nvml


def refuse_inside_slice() -> None:
    """Refuse to serve devices from inside a slice, where only a part of one can be seen.

    Raises:
        BadValueError: This process has the library preloaded.
    """
    preload = os.environ.get("LD_PRELOAD", "")
    if INTERCEPT_LIBRARY.name in preload:
        raise BadValueError("LD_PRELOAD", preload, "none of jupyter-vgpu is for an agent: this shell is inside a slice")


@contextmanager
def simulated_board(spec: str | None, state: Path) -> Iterator[Path | None]:
    """Hold the simulated board that `spec` describes; its state file goes with the context.

    Args:
        spec: As `"a100-80"` or `"2xa100-80"`; `None` = no board is made.
        state: Where its state file goes. One that is there is replaced; processes on it keep their own boards.

    Yields:
        The state file, or `None`. Without a `spec`, one that `JUPYTER_VGPU_SIM` names already.
    """
    if spec is None:
        named = os.environ.get(SIM_VARIABLE)
        yield Path(named) if named else None
        return
    from jupyter_vgpu.sim import create_boards

    before = os.environ.get(SIM_VARIABLE)
    create_boards(state, spec)
    os.environ[SIM_VARIABLE] = str(state)
    try:
        yield state
    finally:
        state.unlink(missing_ok=True)
        if before is None:
            os.environ.pop(SIM_VARIABLE, None)
        else:
            os.environ[SIM_VARIABLE] = before


def find_devices(simulated_state: Path | None, only: str | None = None) -> NodeDevices:
    """Return the devices of the driver, or of the simulated board behind `simulated_state`.

    Args:
        simulated_state: State file of the simulated board; `None` = the driver's.
        only: Numbers or UUIDs of those to serve, with commas between; `None` = those that `JUPYTER_VGPU_DEVICES`
            names, or all.

    Raises:
        BadValueError: One that is named is not there.
        NoDriverError: None answers; the message offers the simulation.
    """
    library = None if simulated_state is None else present(SIMULATED_NVML)
    nvml = Nvml(library, FIRST_ANSWER_SECONDS)
    devices = read_devices(nvml)
    nvml.timeout_seconds = TIMEOUT_SECONDS
    if only is not None:
        return NodeDevices(chosen(devices, only, "--devices"), simulated_state, nvml)
    return NodeDevices(chosen(devices, os.environ.get(DEVICES_VARIABLE), DEVICES_VARIABLE), simulated_state, nvml)
