"""`%vgpu top`: who of the user's uses the slice, and how fast."""

from __future__ import annotations

import time
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_vgpu.client import UsageInfo, UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic.holders import Holder, holders
from jupyter_vgpu.magic.html import grid
from jupyter_vgpu.units import format_bytes

_HEADS = ("who", "memory", "overhead", "GPU time", "SM usage", "waiting", "launches/s")
_HELD_BACK_HEAD = "held back/s"


@dataclass(frozen=True)
class Row:
    """What one holder uses; fractions 0..1 and more on several devices, `None` where nobody measures time."""

    holder: Holder
    launches_per_second: float
    gpu_fraction: float | None
    waiting_fraction: float | None
    sm_usage: float | None
    held_back_per_second: float = 0.0


@dataclass(frozen=True)
class TopView:
    """What `%vgpu top` shows; without rows, `message` says why there are none."""

    rows: list[Row]
    seconds: float = 0.0
    reason: str = ""
    message: str = ""

    def __repr__(self) -> str:
        if self.reason:
            return f"No GPU slice ({self.reason}): {self.message}"
        lines = self._lines()
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                         for line in lines)  # fmt: skip

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the view in each form a front end may prefer."""
        heads, *cells = self._lines()
        html = grid(heads, cells) if not self.reason else f"<div>{escape(repr(self))}</div>"
        return {"text/plain": repr(self), "text/html": html}

    def _lines(self) -> list[tuple[str, ...]]:
        """Return the heads, then the cells of each row; what is held back only where something ever was."""
        lines = [_HEADS, *(_cells(row) for row in self.rows)]
        if not any(row.holder.throttled_launches for row in self.rows):
            return lines
        held_back = [_HELD_BACK_HEAD, *(f"{row.held_back_per_second:,.0f}" for row in self.rows)]
        return [(*line, last) for line, last in zip(lines, held_back, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Return everything as one object that JSON can carry."""
        rows = [
            {**vars(row.holder), **{name: value for name, value in vars(row).items() if name != "holder"}}
            for row in self.rows
        ]
        return {"reason": self.reason, "message": self.message, "seconds": self.seconds, "rows": rows}


def read_top(seconds: float = 1.0) -> TopView:
    """Return who uses the slice, from two readings `seconds` (> 0) apart, or a view that says why there is none."""
    try:
        client = UserClient.from_environment()
        before = client.usage()
        time.sleep(seconds)
        return between(before, client.usage())
    except VGPUError as error:
        return TopView([], reason=error.reason, message=str(error))


def between(before: UsageInfo, now: UsageInfo) -> TopView:
    """Return who uses the slice, from two readings of it."""
    seconds = now["time"] - before["time"]
    past = {holder.name: holder for holder in holders(before)}
    return TopView([_row(holder, past.get(holder.name), seconds) for holder in holders(now)], seconds)


def _row(holder: Holder, past: Holder | None, seconds: float) -> Row:
    launches = holder.launches - (past.launches if past else 0)
    held_back = holder.throttled_launches - (past.throttled_launches if past else 0)
    return Row(
        holder,
        max(0.0, launches / seconds) if seconds > 0 else 0.0,
        _rate(holder.gpu_seconds, past.gpu_seconds if past else 0.0, seconds),
        _rate(holder.waited_seconds, past.waited_seconds if past else 0.0, seconds),
        _rate(holder.sm_seconds, past.sm_seconds if past else 0.0, seconds),
        max(0.0, held_back / seconds) if seconds > 0 else 0.0,
    )


def _rate(now: float | None, then: float | None, seconds: float) -> float | None:
    return None if now is None or then is None or seconds <= 0 else max(0.0, (now - then) / seconds)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.holder.name,
        format_bytes(row.holder.memory_bytes),
        format_bytes(row.holder.overhead_bytes),
        _percent(row.gpu_fraction),
        _percent(row.sm_usage),
        _percent(row.waiting_fraction),
        f"{row.launches_per_second:,.0f}",
    )


def _percent(fraction: float | None) -> str:
    return "not measured" if fraction is None else f"{fraction:.0%}"
