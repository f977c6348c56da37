"""Which devices this node has."""

from __future__ import annotations

from jupyter_vgpu.errors import NoDriverError
from jupyter_vgpu.model import Device
from jupyter_vgpu.nvml import DeviceRow, Nvml


def device_of(row: DeviceRow) -> Device:
    """Return the device that NVML's `row` describes. The simulated driver's boards say so in their name."""
    return Device(
        uuid=row.uuid,
        name=row.name,
        index=row.index,
        total_bytes=row.total_bytes,
        sm_count=row.sm_count,
        compute_capability=row.compute_capability,
        is_simulated="simulated" in row.name.lower(),
        driver_version=row.driver_version,
    )


def read_devices(nvml: Nvml) -> list[Device]:
    """Return the devices of this node in NVML's order, at least one.

    Raises:
        NoDriverError: No driver, no answer, or no device.
    """
    devices = [device_of(row) for row in nvml.devices()]
    if not devices:
        raise NoDriverError(
            "the NVIDIA driver answers but has no usable device; without one, take a simulated board: "
            "`jupyter vgpu run --simulate a100-80 …`, or `agent --simulate a100-80`"
        )
    return devices
