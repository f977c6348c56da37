"""Which devices this node has."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_vgpu.errors import BadValueError, NoDriverError
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


def chosen(devices: Sequence[Device], only: str | None, what: str = "devices") -> list[Device]:
    """Return the devices that somebody chose, in their own order.

    Args:
        devices: Those of this node.
        only: Numbers, as `nvidia-smi` gives them, or UUIDs, with commas between; `None` or empty = all.
        what: Where that was said, for the message.

    Raises:
        BadValueError: One is no device of this node, or is named twice.
    """
    if not only:
        return list(devices)
    allowed = "numbers or UUIDs, with commas between, of " + ", ".join(f"{one.index} ({one.uuid})" for one in devices)
    found: list[Device] = []
    for name in only.split(","):
        named = [one for one in devices if name.strip() in (str(one.index), one.uuid)]
        if not named or named[0] in found:
            raise BadValueError(what, only, allowed + " are, each once")
        found += named
    return sorted(found, key=lambda one: one.index)
