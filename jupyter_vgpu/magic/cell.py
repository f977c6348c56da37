"""`%%vgpu`: what one cell cost, watched from a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from jupyter_vgpu.client import UsageInfo, UserClient, held_back_in_words
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic import frameworks
from jupyter_vgpu.magic.holders import memory_of, own_processes, total
from jupyter_vgpu.magic.html import DIM, chart, sparks, table
from jupyter_vgpu.magic.trace import FIRST_PERIOD_SECONDS, Trace
from jupyter_vgpu.units import format_bytes

if TYPE_CHECKING:
    from jupyter_vgpu.client.answers import ProcessDeviceInfo


@dataclass(frozen=True)
class CellCost:
    """What `%%vgpu` shows.

    Attributes:
        wall_seconds: How long the cell took.
        memory_bytes: What this notebook was granted at each look, without overhead; of a long cell, the most of each
            of as many looks as make it `trace.MOST_VALUES` at most.
        before_bytes: The same at the first look.
        after_bytes: The same at the last.
        period_seconds: Between two looks, at the end.
        launches: Launches of the cell.
        gpu_seconds: Its GPU time; `None` where nobody measures it.
        waited_seconds: Its time waited; `None` likewise.
        throttled_launches: Those of its launches that were held back; 0 where nobody holds back.
        gated_seconds: For how long they were, together.
        torch_peak: Torch's own peak, which misses nothing; `None` when torch uses no GPU.
        reason: Stable name of what stood in the way; empty when nothing did.
        message: The same as one sentence.
    """

    wall_seconds: float
    memory_bytes: list[int] = field(default_factory=list)
    before_bytes: int = 0
    after_bytes: int = 0
    period_seconds: float = FIRST_PERIOD_SECONDS
    launches: int = 0
    gpu_seconds: float | None = None
    waited_seconds: float | None = None
    throttled_launches: int = 0
    gated_seconds: float = 0.0
    torch_peak: frameworks.Cache | None = None
    reason: str = ""
    message: str = ""

    @property
    def peak_bytes(self) -> int:
        """The most memory seen; what came and went within one period is in `torch_peak` only."""
        held = self.torch_peak.held_bytes if self.torch_peak else 0
        return max([held, *self.memory_bytes])

    def figures(self) -> list[tuple[str, str]]:
        """Return name and text of each figure."""
        if self.reason:
            return [("time", f"{self.wall_seconds:.2f} s"), ("slice", f"none ({self.reason}): {self.message}")]
        grown = f"{format_bytes(self.before_bytes)} before, {format_bytes(self.after_bytes)} after"
        rows = [
            ("time", f"{self.wall_seconds:.2f} s"),
            ("peak memory", f"{format_bytes(self.peak_bytes)} ({grown})"),
            ("GPU time", self._seconds(self.gpu_seconds)),
            ("waited", self._seconds(self.waited_seconds)),
            ("launches", f"{self.launches:,}"),
        ]
        if self.throttled_launches:
            rows.append(("held back", held_back_in_words(self.throttled_launches, self.gated_seconds)))
        if self.torch_peak:
            allocated, reserved = format_bytes(self.torch_peak.used_bytes), format_bytes(self.torch_peak.held_bytes)
            rows.insert(2, ("torch's peak", f"{allocated} in tensors, {reserved} reserved"))
        return rows

    def __repr__(self) -> str:
        lines = [f"{name:<12}  {text}" for name, text in self.figures()]
        if line := sparks(self.memory_bytes):
            lines.append(f"{'memory':<12}  {line}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the view in each form a front end may prefer."""
        rows = [(escape(name), escape(text)) for name, text in self.figures()]
        label = f"Memory of this notebook while the cell ran, at most {format_bytes(self.peak_bytes)}"
        drawing = chart(self.memory_bytes, label)
        period = f"{self.period_seconds * 1000:.0f} ms"
        note = f'<div style="{DIM}">memory, looked at every {period}</div>' if drawing else ""
        return {"text/plain": repr(self), "text/html": f"<div>{table(rows)}{drawing}{note}</div>"}

    def as_json(self) -> dict[str, Any]:
        """Return everything as one object that JSON can carry."""
        torch = vars(self.torch_peak) if self.torch_peak else None
        return {**vars(self), "torch_peak": torch, "peak_bytes": self.peak_bytes}

    def _seconds(self, seconds: float | None) -> str:
        if seconds is None:
            return "not measured"
        part = f" ({seconds / self.wall_seconds:.0%} of the time)" if self.wall_seconds > 0 else ""
        return f"{seconds:.3f} s{part}"


@dataclass(frozen=True)
class _Counters:
    """What one process has had so far."""

    launches: int
    gpu_seconds: float | None
    waited_seconds: float | None
    throttled_launches: int
    gated_seconds: float


class CellWatch:
    """Looks at this notebook's part of the slice until it is told to stop; a context manager."""

    def __init__(self) -> None:
        """Look at nothing yet."""
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="jupyter-vgpu-cell", daemon=True)
        self._first: dict[int, _Counters] = {}
        self._last: dict[int, _Counters] = {}
        self._memory = Trace()
        self._client: UserClient | None = None
        self._error: VGPUError | None = None
        self._seconds = 0.0
        self._torch_peak: frameworks.Cache | None = None

    def __enter__(self) -> CellWatch:
        try:
            self._client = UserClient.from_environment()
            usage = self._client.usage()
        except VGPUError as error:
            self._error = error
        else:
            self._note(usage)
            self._first = dict(self._last)
            frameworks.forget_peak()
            self._thread.start()
        self._started = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.is_of_this_process:
            return
        self._seconds = time.monotonic() - self._started
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._torch_peak = frameworks.peak()
            self._look()

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was begun here: what the cell forked goes on with the cell, but watches nothing."""
        return os.getpid() == self._pid

    def cost(self) -> CellCost:
        """Return what was seen."""
        if self._error is not None:
            return CellCost(self._seconds, reason=self._error.reason, message=str(self._error))
        nothing = _Counters(0, 0.0, 0.0, 0, 0.0)
        pairs = [(self._first.get(pid, nothing), last) for pid, last in self._last.items()]
        # An agent that was started anew meanwhile may count from nothing.
        return CellCost(
            self._seconds,
            self._memory.values,
            self._memory.first,
            self._memory.last,
            self._memory.period_seconds,
            launches=sum(max(0, last.launches - first.launches) for first, last in pairs),
            gpu_seconds=total(_difference(first.gpu_seconds, last.gpu_seconds) for first, last in pairs),
            waited_seconds=total(_difference(first.waited_seconds, last.waited_seconds) for first, last in pairs),
            throttled_launches=sum(max(0, last.throttled_launches - first.throttled_launches) for first, last in pairs),
            gated_seconds=sum(max(0.0, last.gated_seconds - first.gated_seconds) for first, last in pairs),
            torch_peak=self._torch_peak,
        )

    def _watch(self) -> None:
        while not self._stop.wait(self._memory.period_seconds):
            self._look()

    def _look(self) -> None:
        assert self._client is not None
        try:
            self._note(self._client.usage())
        except VGPUError as error:
            self._error = error
        else:
            # What was missed meanwhile is in the counters.
            self._error = None

    def _note(self, usage: UsageInfo) -> None:
        processes = own_processes(usage, self._pid)
        self._memory.add(sum(memory_of(process) for process in processes))
        for process in processes:
            devices = process["devices"]
            # A process that ends meanwhile has had what it was last seen with.
            self._last[process["pid"]] = _Counters(
                sum(device["launches"] for device in devices),
                # What was charged ahead of what samples said later is no cost of this cell's, nor of the next one's.
                total(_had(device) for device in devices),
                total(device.get("waited_seconds") for device in devices),
                sum(device.get("throttled_launches", 0) for device in devices),
                sum(device.get("gated_seconds", 0.0) for device in devices),
            )


def _had(device: ProcessDeviceInfo) -> float | None:
    charged = device.get("gpu_time_seconds")
    return None if charged is None else charged - device.get("charged_ahead_seconds", 0.0)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)
