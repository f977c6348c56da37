"""Who of the user's holds how much of the slice, seen from one Jupyter kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_vgpu.client import ProcessInfo, UsageInfo
from jupyter_vgpu.processes import notebook_of, short_name, started_by

THIS = "this notebook"


@dataclass(frozen=True)
class Holder:
    """One notebook, or one process that belongs to none.

    Attributes:
        name: For people: `"this notebook"`, a file's name, or a process's name and id.
        is_this: Whether it is the Jupyter kernel that asks, with what it started.
        is_notebook: Whether it is another notebook's Jupyter kernel, with what it started.
        memory_bytes: What its processes were granted, on all devices of the slice.
        overhead_bytes: What their contexts and code take besides; 0 where nobody measures it.
        launches: Since its processes attached.
        gpu_seconds: GPU time since then; `None` where nobody measures it.
        waited_seconds: Time waited since then; `None` likewise.
        sm_seconds: GPU time × the part of the SMs that its launches could fill; `None` likewise.
        throttled_launches: Those of its launches that were held back; 0 where nobody holds back.
        gated_seconds: For how long they were, together.
    """

    name: str
    is_this: bool
    is_notebook: bool
    memory_bytes: int
    overhead_bytes: int
    launches: int
    gpu_seconds: float | None
    waited_seconds: float | None
    sm_seconds: float | None
    throttled_launches: int = 0
    gated_seconds: float = 0.0


def holders(usage: UsageInfo, own_pid: int | None = None) -> list[Holder]:
    """Return who uses the slice: this notebook first (also when it holds nothing), then who holds most.

    Args:
        usage: What the agent says.
        own_pid: The Jupyter kernel's process; `None` = this one.
    """
    own = os.getpid() if own_pid is None else own_pid
    groups: dict[str, list[ProcessInfo]] = {THIS: []}
    notebooks = set()
    for process in usage["processes"]:
        if started_by(process["pid"], {own}) is not None:
            groups[THIS].append(process)
        elif path := notebook_of(process["pid"]):
            notebooks.add(path)
            groups.setdefault(path, []).append(process)
        else:
            groups[f"{process['name']} (process {process['pid']})"] = [process]
    found = [_holder(key, key in notebooks, processes) for key, processes in groups.items()]
    return sorted(found, key=lambda holder: (not holder.is_this, -holder.memory_bytes))


def own_processes(usage: UsageInfo, own_pid: int) -> list[ProcessInfo]:
    """Return those of the agent's processes that are process `own_pid` or were started by it."""
    return [process for process in usage["processes"] if started_by(process["pid"], {own_pid}) is not None]


def memory_of(process: ProcessInfo) -> int:
    """Return what a process was granted on all devices, in bytes, without overhead."""
    return sum(device["memory_bytes"] for device in process["devices"])


def _holder(key: str, is_notebook: bool, processes: list[ProcessInfo]) -> Holder:
    devices = [device for process in processes for device in process["devices"]]
    return Holder(
        name=short_name(key) if is_notebook else key,
        is_this=key == THIS,
        is_notebook=is_notebook,
        memory_bytes=sum(device["memory_bytes"] for device in devices),
        overhead_bytes=sum(device.get("memory_overhead_bytes", 0) for device in devices),
        launches=sum(device["launches"] for device in devices),
        gpu_seconds=total(device.get("gpu_time_seconds") for device in devices),
        waited_seconds=total(device.get("waited_seconds") for device in devices),
        sm_seconds=total(device.get("sm_seconds") for device in devices),
        throttled_launches=sum(device.get("throttled_launches", 0) for device in devices),
        gated_seconds=sum(device.get("gated_seconds", 0.0) for device in devices),
    )


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum; `None` when one of the values is not known."""
    known = list(values)
    return None if any(value is None for value in known) else sum(value for value in known if value is not None)
