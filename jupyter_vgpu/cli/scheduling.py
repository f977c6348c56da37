"""The governor's records as things that were the case for a while: what a trace shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_vgpu.cli.trace import TraceRecord
from jupyter_vgpu.client import TraceInfo

# From one record to another, and what was the case between them.
_BARS = {"gate closed": ("gate opened", "gate closed"), "window begun": ("window over", "window")}
_ENDS = {end: begin for begin, (end, _) in _BARS.items()}


def happenings(trace: TraceInfo) -> list[TraceRecord]:
    """Return what a trace tells of each tenant on each device, in no order.

    Windows and closed gates last from their beginning to their end, or to the end of the trace; of what had begun
    before the trace only the end is known, and it is left out. `use` is the GPU time charged at a look, shown from that
    look on and not beyond the next. `under way` lasts while anything is.
    """
    whose = {
        runner["runner"]: (runner["uuid"], f"{runner['tenant']} ({runner['profile']}, {runner['claim']})")
        for runner in trace["runners"]
    }
    records = [record for record in trace["records"] if record[1] in whose]
    if not records:
        return []
    end_ns = records[-1][0]
    told = []
    for runner, (device, tenant) in whose.items():
        own = [(time_ns, kind, value_ns) for time_ns, number, kind, value_ns in records if number == runner]
        for kind, begin_ns, over_ns in [*_bars(own, end_ns), *_use(own, end_ns), *_under_way(own, end_ns)]:
            told.append(TraceRecord(begin_ns, device, tenant, kind, over_ns - begin_ns))
    return told


def _bars(own: Iterable[tuple[int, str, int]], end_ns: int) -> Iterator[tuple[str, int, int]]:
    since: dict[str, int] = {}
    for time_ns, kind, _ in own:
        if kind in _BARS:
            since[kind] = time_ns
        elif kind in _ENDS and _ENDS[kind] in since:
            yield _BARS[_ENDS[kind]][1], since.pop(_ENDS[kind]), time_ns
    for kind, begin_ns in since.items():
        yield _BARS[kind][1], begin_ns, end_ns


def _use(own: Iterable[tuple[int, str, int]], end_ns: int) -> Iterator[tuple[str, int, int]]:
    charged = [(time_ns, value_ns) for time_ns, kind, value_ns in own if kind == "charged"]
    nexts = [time_ns for time_ns, _ in charged[1:]] + [end_ns]
    for (time_ns, value_ns), next_ns in zip(charged, nexts, strict=False):
        yield "use", time_ns, min(time_ns + value_ns, max(next_ns, time_ns))


def _under_way(own: Iterable[tuple[int, str, int]], end_ns: int) -> Iterator[tuple[str, int, int]]:
    since_ns: int | None = None
    for time_ns, kind, value_ns in own:
        if kind != "under way":
            continue
        if value_ns > 0 and since_ns is None:
            since_ns = time_ns
        elif value_ns == 0 and since_ns is not None:
            yield "under way", since_ns, time_ns
            since_ns = None
    if since_ns is not None:
        yield "under way", since_ns, end_ns
