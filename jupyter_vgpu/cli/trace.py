"""Who held or used which GPU when, as a file that trace viewers open.

`jupyter vgpu status --trace out.json`; https://ui.perfetto.dev and chrome://tracing read it.
Source of the format: "Trace Event Format" (Google, 2016), JSON object format; events "X", "i" and "M".
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jupyter_vgpu.errors import BadValueError

_T = TypeVar("_T")


@dataclass(frozen=True)
class TraceRecord:
    """One thing that was the case for a while, or happened.

    Attributes:
        time_ns: When it began, ns of any clock that all records share.
        device: UUID or name of the device.
        tenant: Whose it is.
        kind: What: `"window"`, `"use"`, `"wait"`, …; each kind of a tenant has a line of its own.
        duration_ns: How long, >= 0; 0 = it happened at that moment.
    """

    time_ns: int
    device: str
    tenant: str
    kind: str
    duration_ns: int


def chrome_trace(records: Iterable[TraceRecord]) -> dict[str, Any]:
    """Return the trace of some records, in any order, ready to be written as JSON.

    A device is shown as a process, a tenant's kind of record as a thread of it; times are microseconds since the
    first record, and events come in their order. Viewers draw what overlaps on one thread wrongly unless it is nested,
    so what overlaps something of the same kind goes on a further thread. Threads of a tenant stand together.

    Raises:
        BadValueError: A duration is below 0.
    """
    ordered = sorted(records, key=lambda record: (record.time_ns, -record.duration_ns))
    begin_ns = ordered[0].time_ns if ordered else 0
    for record in ordered:
        if record.duration_ns < 0:
            raise BadValueError("duration_ns", record.duration_ns, "0 or more is")
    pids = {device: number for number, device in enumerate(_in_order(record.device for record in ordered), start=1)}
    kinds = _in_order(record.kind for record in ordered)
    events = [_named("process_name", pid, 0, {"name": device}) for device, pid in pids.items()]
    of_line: dict[tuple[str, str, str], list[TraceRecord]] = {}
    for record in ordered:
        of_line.setdefault((record.device, record.tenant, record.kind), []).append(record)
    tenants = _in_order((record.device, record.tenant) for record in ordered)
    lines = [(*tenant, kind) for tenant in tenants for kind in kinds if (*tenant, kind) in of_line]
    lanes = [(line, lane) for line in lines for lane in _lanes(of_line[line])]
    drawn = []
    for tid, ((device, tenant_name, kind), lane) in enumerate(lanes, start=1):
        events.append(_named("thread_name", pids[device], tid, {"name": f"{tenant_name}: {kind}"}))
        events.append(_named("thread_sort_index", pids[device], tid, {"sort_index": tid}))
        drawn += [_event(record, begin_ns, pids[device], tid) for record in lane]
    return {"traceEvents": [*events, *sorted(drawn, key=lambda event: float(event["ts"]))], "displayTimeUnit": "ms"}


def refuse_unwritable(path: Path) -> None:
    """Refuse where `write_trace` cannot write, before somebody waits for what is to be written.

    Raises:
        BadValueError: There is no such folder, it or the file may not be written, or `path` is a folder itself.
    """
    if path.is_dir():
        raise _unwritable(path, "it is a folder itself")
    if not path.parent.is_dir():
        raise _unwritable(path, f"there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def write_trace(records: Iterable[TraceRecord], path: Path) -> None:
    """Write the trace of some records; a file that is there is replaced.

    Raises:
        BadValueError: A duration is below 0, or nothing can be written there.
    """
    told = json.dumps(chrome_trace(records))
    try:
        path.write_text(told + "\n", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error


def _unwritable(path: Path, why: str) -> BadValueError:
    return BadValueError("--trace", str(path), f"a file in a folder that exists and may be written is ({why})")


def _lanes(records: Sequence[TraceRecord]) -> list[list[TraceRecord]]:
    """Return the records, ordered by time, on as few lanes as keep any two on one from overlapping."""
    lanes: list[list[TraceRecord]] = []
    for record in records:
        for lane in lanes:
            if lane[-1].time_ns + lane[-1].duration_ns <= record.time_ns:
                lane.append(record)
                break
        else:
            lanes.append([record])
    return lanes


def _in_order(names: Iterable[_T]) -> list[_T]:
    """Return each name once, in the order of first appearance."""
    return list(dict.fromkeys(names))


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _event(record: TraceRecord, begin_ns: int, pid: int, tid: int) -> dict[str, Any]:
    at = {"name": record.kind, "cat": "gpu", "pid": pid, "tid": tid, "ts": (record.time_ns - begin_ns) / 1e3}
    if record.duration_ns == 0:
        return {"ph": "i", "s": "t", **at}
    return {"ph": "X", "dur": record.duration_ns / 1e3, **at, "args": {"tenant": record.tenant}}
