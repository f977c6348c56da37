"""NVML behind one thread and a time limit, with its absurd answers left out."""

from jupyter_vgpu.nvml.listing import LIBRARY_NAME
from jupyter_vgpu.nvml.rows import (
    DeviceLook,
    DeviceRow,
    DeviceUse,
    ProcessRow,
    is_true_device,
    true_processes,
    true_utilisation,
)
from jupyter_vgpu.nvml.worker import TIMEOUT_SECONDS, Nvml

__all__ = [
    "LIBRARY_NAME",
    "TIMEOUT_SECONDS",
    "DeviceLook",
    "DeviceRow",
    "DeviceUse",
    "Nvml",
    "ProcessRow",
    "is_true_device",
    "true_processes",
    "true_utilisation",
]
