"""What the slice used over the last hour: a ring buffer, no I/O.

The last five minutes are kept by the second, the rest of the hour by ten
seconds: the most memory and the mean of the fractions in each ten. Time in
which nobody looked has no figures, and is a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from jupyter_vgpu.client import UsageDeviceInfo, UsageInfo

FINE_SECONDS = 300.0
HISTORY_SECONDS = 3600.0
COARSE_STEP_SECONDS = 10.0
# Readings come once a second, and every five where nothing changes; later than this, some are missing.
_GAP_SECONDS = 8.0
# A reading that was kept back so long says something new: what was before lasted until about a second ago.
_KEPT_BACK_SECONDS = 2.0


class HistoryInfo(TypedDict):
    """One device's history, oldest first: HISTORY in `docs/contracts.md`; all lists have the same length."""

    uuid: str
    time: list[float]
    memory_bytes: list[int | None]
    gpu_time_fraction: list[float | None]
    waiting_fraction: list[float | None]


@dataclass(frozen=True)
class Point:
    """One moment; `None` is not known."""

    time: float
    memory_bytes: int | None = None
    gpu_time_fraction: float | None = None
    waiting_fraction: float | None = None

    @property
    def values(self) -> tuple[float | None, ...]:
        """All but the time."""
        return self.memory_bytes, self.gpu_time_fraction, self.waiting_fraction


class History:
    """The last hour of one slice."""

    def __init__(self) -> None:
        """Start empty."""
        self._claim = ""
        self._lines: dict[str, _Line] = {}

    def add(self, usage: UsageInfo) -> None:
        """Take a reading; one that is not newer than the last is left out, one of another claim starts anew."""
        if usage["claim"] != self._claim:
            self._claim = usage["claim"]
            self._lines.clear()
        for device in usage["devices"]:
            self._lines.setdefault(device["uuid"], _Line()).add(_point(usage["time"], device))

    def as_json(self) -> list[HistoryInfo]:
        """Return the history of each device, with gaps."""
        return [_columns(uuid, line.points()) for uuid, line in self._lines.items()]


class _Line:
    """One device's points: fine ones, and coarse ones before them."""

    def __init__(self) -> None:
        self._fine: deque[Point] = deque()
        self._ten_seconds: list[Point] = []
        self._coarse: deque[Point] = deque()

    def add(self, point: Point) -> None:
        if self._fine and point.time <= self._fine[-1].time:
            return
        self._hold_until(point)
        self._fine.append(point)
        while self._fine[0].time < point.time - FINE_SECONDS:
            self._grow_old(self._fine.popleft())
        while self._coarse and self._coarse[0].time < point.time - HISTORY_SECONDS:
            self._coarse.popleft()

    def _hold_until(self, point: Point) -> None:
        """Draw no slope where a step was: see `_KEPT_BACK_SECONDS`."""
        last = self._fine[-1] if self._fine else point
        is_step = last.values != point.values
        if is_step and _KEPT_BACK_SECONDS < point.time - last.time <= _GAP_SECONDS:
            self._fine.append(replace(last, time=point.time - 1.0))

    def points(self) -> list[Point]:
        older = [*self._coarse, *([_merged(self._ten_seconds)] if self._ten_seconds else [])]
        result: list[Point] = []
        for points, gap_seconds in ((older, COARSE_STEP_SECONDS + _GAP_SECONDS), (self._fine, _GAP_SECONDS)):
            for index, point in enumerate(points):
                longest = gap_seconds if index else COARSE_STEP_SECONDS + _GAP_SECONDS
                if result and point.time - result[-1].time > longest:
                    result.append(Point(result[-1].time + 1.0))
                result.append(point)
        return result

    def _grow_old(self, point: Point) -> None:
        if self._ten_seconds and _step(self._ten_seconds[0]) != _step(point):
            self._coarse.append(_merged(self._ten_seconds))
            self._ten_seconds = []
        self._ten_seconds.append(point)


def _step(point: Point) -> int:
    return int(point.time // COARSE_STEP_SECONDS)


def _point(time: float, device: UsageDeviceInfo) -> Point:
    # Older agents do not measure time.
    return Point(time, device["memory_used_bytes"], device.get("gpu_time_fraction"), device.get("waiting_fraction"))


def _merged(points: Sequence[Point]) -> Point:
    if len(points) == 1:
        return points[0]
    known = [point.memory_bytes for point in points if point.memory_bytes is not None]
    return Point(
        points[-1].time,
        max(known) if known else None,
        _mean(point.gpu_time_fraction for point in points),
        _mean(point.waiting_fraction for point in points),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _columns(uuid: str, points: Sequence[Point]) -> HistoryInfo:
    return {
        "uuid": uuid,
        "time": [round(point.time, 3) for point in points],
        "memory_bytes": [point.memory_bytes for point in points],
        "gpu_time_fraction": [_rounded(point.gpu_time_fraction) for point in points],
        "waiting_fraction": [_rounded(point.waiting_fraction) for point in points],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
