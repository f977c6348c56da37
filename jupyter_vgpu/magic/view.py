"""One look at a slice, as text, as HTML and as JSON. No I/O."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_vgpu.client import (
    EnforcedBy,
    ProcessInfo,
    SliceInfo,
    UsageDeviceInfo,
    UsageInfo,
    gpu_time_in_words,
    guarantee_in_words,
    held_back_in_words,
    waited_in_words,
    windows_in_words,
)
from jupyter_vgpu.magic.html import DIM, row
from jupyter_vgpu.units import format_bytes

_BAR_WIDTH = 20

_TRACK = (
    "background:var(--jp-layout-color3,#bdbdbd);border-radius:3px;height:8px;width:16em;margin:4px 0;overflow:hidden"
)
_FILL = "background:var(--jp-brand-color1,#1976d2);height:100%"


@dataclass(frozen=True)
class SliceView:
    """What `%vgpu` shows.

    Attributes:
        slice_info: SLICE as in `docs/contracts.md`, or `None`.
        usage: USAGE as in `docs/contracts.md`, or `None`.
        reason: Stable name of what stood in the way; empty when nothing did.
        message: The same as one sentence.
    """

    slice_info: SliceInfo | None = None
    usage: UsageInfo | None = None
    reason: str = ""
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return everything as one object that JSON can carry."""
        return {"reason": self.reason, "message": self.message, "slice": self.slice_info, "usage": self.usage}

    def __repr__(self) -> str:
        return "\n".join(_text(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the view in each form a front end may prefer."""
        return {"text/plain": repr(self), "text/html": "".join(_html(self))}


def _text(view: SliceView) -> Iterator[str]:
    if view.slice_info is None or view.usage is None:
        yield f"No GPU slice ({view.reason}): {view.message}"
        return
    simulated = _simulated(view.slice_info)
    yield f"GPU slice {view.slice_info['profile']}"
    for name, device in _named(view.usage):
        filled = round(_part(device) * _BAR_WIDTH)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        yield f"  {name}{' (simulated board)' if device['uuid'] in simulated else ''}"
        yield f"    memory    [{bar}] {_memory(device)}"
        if device["memory_overhead_bytes"]:
            yield f"    overhead  {_overhead(device)}"
        if "gpu_time_fraction" in device:
            yield f"    GPU time  {gpu_time_in_words(device)}"
            yield f"    waited    {waited_in_words(device)}"
        if "guaranteed" in device:
            yield f"    guarantee {guarantee_in_words(device['guaranteed'])}"
        if "sm_usage" in device:
            yield f"    SM usage  {device['sm_usage']:.0%}"
        if "pressure" in device:
            yield f"    others    {_pressure(device)}"
        yield f"    launches  {_launches(device)}"
        for name, text in _holding_back(device):
            yield f"    {name:<9} {text}"
    yield f"  {_processes_title(view.usage)}"
    for process in view.usage["processes"]:
        yield f"    {process['pid']:>7}  {process['name']}  {_held(process)}"
    yield f"  {enforcement(view.usage['enforced_by'])}"


def _html(view: SliceView) -> Iterator[str]:
    if view.slice_info is None or view.usage is None:
        yield f"<div><b>No GPU slice</b> ({escape(view.reason)}): {escape(view.message)}</div>"
        return
    simulated = _simulated(view.slice_info)
    yield f"<div><b>GPU slice {escape(view.slice_info['profile'])}</b>"
    for name, device in _named(view.usage):
        note = f' <span style="{DIM}">simulated board</span>' if device["uuid"] in simulated else ""
        yield f'<div style="margin-top:8px">{escape(name)}{note}</div>'
        yield "<table>"
        yield row("Memory", f"{escape(_memory(device))}{_meter(device)}")
        if device["memory_overhead_bytes"]:
            yield row("Overhead", escape(_overhead(device)))
        if "gpu_time_fraction" in device:
            yield row("GPU time", gpu_time_in_words(device))
            yield row("Waited", waited_in_words(device))
        if "guaranteed" in device:
            yield row("Guarantee", escape(guarantee_in_words(device["guaranteed"])))
        if "sm_usage" in device:
            yield row("SM usage", f"{device['sm_usage']:.0%}")
        if "pressure" in device:
            yield row("Others", escape(_pressure(device)))
        yield row("Launches", escape(_launches(device)))
        for name, text in _holding_back(device):
            yield row(name.capitalize(), escape(text))
        yield "</table>"
    yield f'<div style="margin-top:8px">{escape(_processes_title(view.usage))}</div>'
    if view.usage["processes"]:
        yield "<table>"
        for process in view.usage["processes"]:
            yield row(str(process["pid"]), escape(f"{process['name']}  {_held(process)}"))
        yield "</table>"
    yield f'<div style="margin-top:8px;{DIM}">{escape(enforcement(view.usage["enforced_by"]))}</div></div>'


def _named(usage: UsageInfo) -> Iterator[tuple[str, UsageDeviceInfo]]:
    """Yield each device with its name, and where there are several the number that programs know it by."""
    devices = usage["devices"]
    for ordinal, device in enumerate(devices):
        yield (f"GPU {ordinal}: {device['name']}" if len(devices) > 1 else device["name"]), device


def _meter(device: UsageDeviceInfo) -> str:
    percent = round(_part(device) * 100)
    fill = f'<div style="{_FILL};width:{percent}%"></div>'
    return (
        f'<div role="meter" aria-label="Memory" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}" '
        f'aria-valuetext="{escape(_memory(device))}" style="{_TRACK}">{fill}</div>'
    )


def _part(device: UsageDeviceInfo) -> float:
    """Return how full the slice's memory is, 0..1."""
    limit = device["memory_limit_bytes"]
    return min(1.0, device["memory_used_bytes"] / limit) if limit else 1.0


def _memory(device: UsageDeviceInfo) -> str:
    return f"{format_bytes(device['memory_used_bytes'])} of {format_bytes(device['memory_limit_bytes'])}"


def _overhead(device: UsageDeviceInfo) -> str:
    return f"{format_bytes(device['memory_overhead_bytes'])} (contexts and code)"


def _pressure(device: UsageDeviceInfo) -> str:
    pressure = device["pressure"]
    if not pressure["neighbours"]:
        return "no other slice of this GPU is at work"
    some = "1 other slice is" if pressure["neighbours"] == 1 else f"{pressure['neighbours']} other slices are"
    return f"{some} at work, {pressure['gpu_time_fraction']:.0%} of the GPU's time"


def _launches(device: UsageDeviceInfo) -> str:
    return f"{device['launches']:,} ({device['launches_per_second']:,.1f} a second)"


def _holding_back(device: UsageDeviceInfo) -> Iterator[tuple[str, str]]:
    """Yield name and text of what was done to let others have their turn; nothing where nothing ever was."""
    # Older agents tell neither.
    if device.get("throttled_launches", 0):
        yield "held back", held_back_in_words(device["throttled_launches"], device["gated_seconds"])
    governed = device.get("governed")
    if governed and (governed["windows"] or governed["overruns"] or governed["violations"]):
        yield "windows", windows_in_words(governed)


def _processes_title(usage: UsageInfo) -> str:
    return "Your processes on it" if usage["processes"] else "None of your processes uses it"


def _held(process: ProcessInfo) -> str:
    devices = process["devices"]
    figures = [format_bytes(sum(device["memory_bytes"] for device in devices))]
    if all("gpu_time_seconds" in device for device in devices):
        figures.append(f"GPU time {sum(device['gpu_time_seconds'] for device in devices):,.1f} s")
        figures.append(f"waited {sum(device['waited_seconds'] for device in devices):,.1f} s")
    figures.append(f"{sum(device['launches'] for device in devices):,} launches")
    if held_back := sum(device.get("throttled_launches", 0) for device in devices):
        figures.append(f"{held_back:,} of them held back")
    return ", ".join(figures)


def _simulated(slice_info: SliceInfo) -> set[str]:
    """Return the UUIDs of the devices that are simulated boards."""
    return {device["uuid"] for device in slice_info["devices"] if device["simulated"]}


def enforcement(enforced_by: EnforcedBy) -> str:
    """Return one sentence on how strongly the slice is enforced, as verified."""
    verified = "not verified yet"
    if enforced_by["verified"]:
        at = enforced_by["verified_at"]
        verified = "verified" if at is None else f"verified {time.strftime('%H:%M:%S', time.localtime(at))}"
    note = enforced_by["note"] or ("" if enforced_by["isolated"] else "not isolated")
    return f"Enforced by {enforced_by['backend']} ({enforced_by['level']}), {verified}" + (f"; {note}" if note else "")
