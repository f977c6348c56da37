"""A second of scheduling for a person to look at: the governor's records as a Chrome trace.

source: "Trace Event Format" (Chromium): complete events "X" with `ts` and `dur` in microseconds, counters "C", names by
metadata "M". Perfetto (ui.perfetto.dev) and chrome://tracing open the file.
"""

from __future__ import annotations

from typing import Any

from jupyter_vgpu.client import TraceInfo

# What a row of a tenant shows, and between which records a bar of it lies.
_BARS = {"gate closed": ("gate closed", "gate opened"), "window begun": ("window", "window over")}
_ENDS = {end: begin for begin, (_, end) in _BARS.items()}
_COUNTERS = {"charged": "GPU time used", "under way": "GPU time under way"}


def chrome_trace(trace: TraceInfo) -> dict[str, Any]:
    """Return a trace in Chrome's format: a process for each device, a row for each claim on it.

    A bar that was open at the end is as long as the trace; of one that was open at the beginning only the end is known,
    and it is left out.
    """
    uuids = sorted({runner["uuid"] for runner in trace["runners"]})
    places = {runner["runner"]: (uuids.index(runner["uuid"]) + 1, runner["runner"]) for runner in trace["runners"]}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": place + 1, "args": {"name": uuid}}
        for place, uuid in enumerate(uuids)
    ]
    for runner in trace["runners"]:
        pid, tid = places[runner["runner"]]
        name = f"{runner['tenant']} ({runner['profile']}, claim {runner['claim']})"
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
    events += _happenings(trace, places)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"lost records": trace["lost"]}}


def _happenings(trace: TraceInfo, places: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    records = [record for record in trace["records"] if record[1] in places]
    if not records:
        return []
    begin_ns, end_ns = records[0][0], records[-1][0]
    events: list[dict[str, Any]] = []
    open_since: dict[tuple[int, str], int] = {}
    for time_ns, runner, kind, value_ns in records:
        if kind in _BARS:
            open_since[runner, kind] = time_ns
        elif kind in _ENDS:
            since_ns = open_since.pop((runner, _ENDS[kind]), None)
            if since_ns is not None:
                events.append(_bar(places[runner], _ENDS[kind], since_ns - begin_ns, time_ns - since_ns))
        else:
            events.append(_counter(places[runner], runner, kind, time_ns - begin_ns, value_ns))
    for (runner, kind), since_ns in open_since.items():
        events.append(_bar(places[runner], kind, since_ns - begin_ns, end_ns - since_ns))
    return events


def _bar(place: tuple[int, int], kind: str, at_ns: int, duration_ns: int) -> dict[str, Any]:
    pid, tid = place
    return {"ph": "X", "name": _BARS[kind][0], "pid": pid, "tid": tid, "ts": at_ns / 1e3, "dur": duration_ns / 1e3}


def _counter(place: tuple[int, int], runner: int, kind: str, at_ns: int, value_ns: int) -> dict[str, Any]:
    name = f"{_COUNTERS.get(kind, kind)}, {runner}"
    return {"ph": "C", "name": name, "pid": place[0], "ts": at_ns / 1e3, "args": {"ms": value_ns / 1e6}}
