"""What NVML says, and whether it can be true. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_MOST_BYTES = 1 << 50
_MOST_PID = 1 << 22  # source: proc_sys_kernel(5), pid_max on 64-bit systems
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class DeviceRow:
    """What NVML says of one device, in NVML's terms.

    Attributes:
        index: NVML's index.
        uuid: `"GPU-…"`.
        name: Name of the board.
        total_bytes: Memory that programs can use: NVML's total without what the driver reserves for itself.
        compute_capability: `"9.0"`, or `""`.
        sm_count: Streaming multiprocessors, or 0.
        driver_version: Version of the driver, or `""`.
    """

    index: int
    uuid: str
    name: str
    total_bytes: int
    compute_capability: str
    sm_count: int
    driver_version: str


@dataclass(frozen=True)
class ProcessRow:
    """Memory that one process holds on one device, contexts and module code included; `None` = NVML does not say."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True)
class DeviceUse:
    """How busy a device was, on average, since the last look or for NVML's own period.

    Attributes:
        active: Part of the time in which anything ran, 0..1. Gaps between launches may count as running.
        sm_busy: Part of the SMs that had work, 0..1; never above the part of the time in which anything ran. `None`
            where the device has no such counters.
    """

    active: float
    sm_busy: float | None = None


@dataclass(frozen=True)
class DeviceLook:
    """What NVML says of one device at one moment.

    Attributes:
        processes: The processes with a context, one row each.
        use: How busy the device was; `None` = NVML does not say.
        utilisation: Part of the time in which a process ran, 0..1, by pid; it lags, and has been seen wrong by a
            factor of two. Empty when it was not asked for.
    """

    processes: list[ProcessRow]
    use: DeviceUse | None = None
    utilisation: dict[int, float] = field(default_factory=dict)


def is_true_device(row: DeviceRow) -> bool:
    """Return whether `row` could be true: a UUID of NVML's form and a size that a device can have."""
    return _UUID.fullmatch(row.uuid) is not None and 0 < row.total_bytes <= _MOST_BYTES


def is_true_pid(pid: int) -> bool:
    """Return whether `pid` could be a process."""
    return 0 < pid < _MOST_PID


def true_processes(rows: list[ProcessRow], total_bytes: int) -> list[ProcessRow]:
    """Return the rows that could be true, one per process.

    NVML is known to give process ids that cannot be, and sizes above the device's.
    """
    kept: dict[int, ProcessRow] = {}
    for row in rows:
        if is_true_pid(row.pid) and (row.used_bytes is None or 0 <= row.used_bytes <= total_bytes):
            kept.setdefault(row.pid, row)
    return list(kept.values())


def true_fraction(percent: float) -> float | None:
    """Return a part of a whole that NVML gave in per cent; `None` when it cannot be one."""
    return percent / 100 if math.isfinite(percent) and 0 <= percent <= 100 else None


def true_utilisation(samples: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the mean of the samples that could be true, by process.

    Args:
        samples: Process id and per cent; several of one process, or none. NVML has given 4 billion per cent.
    """
    kept: dict[int, list[float]] = {}
    for pid, percent in samples:
        fraction = true_fraction(percent)
        if is_true_pid(pid) and fraction is not None:
            kept.setdefault(pid, []).append(fraction)
    return {pid: sum(fractions) / len(fractions) for pid, fractions in kept.items()}
