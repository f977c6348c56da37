"""Records of who had the GPU when, as a trace that viewers draw right."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_vgpu.cli.trace import TraceRecord, chrome_trace, write_trace
from jupyter_vgpu.errors import BadValueError

MS = 1_000_000


def names_of_threads(trace: dict[str, Any]) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }


def test_a_record_is_drawn_on_its_tenant_s_line_of_its_device() -> None:
    trace = chrome_trace(
        [
            TraceRecord(7 * MS, "GPU-a", "bob", "window", 10 * MS),
            TraceRecord(5 * MS, "GPU-a", "alice", "window", 2 * MS),
            TraceRecord(6 * MS, "GPU-b", "alice", "wait", MS // 2),
        ]
    )

    threads = names_of_threads(trace)
    devices = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    drawn = [
        (devices[event["pid"]], threads[event["pid"], event["tid"]], event["ts"], event["dur"])
        for event in trace["traceEvents"]
        if event["ph"] == "X"
    ]
    assert sorted(drawn) == [
        ("GPU-a", "alice: window", 0.0, 2000.0),
        ("GPU-a", "bob: window", 2000.0, 10000.0),
        ("GPU-b", "alice: wait", 1000.0, 500.0),
    ]


def test_what_takes_no_time_is_a_mark() -> None:
    trace = chrome_trace([TraceRecord(0, "GPU-a", "alice", "violation", 0)])

    (mark,) = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert (mark["name"], mark["s"], mark["ts"]) == ("violation", "t", 0.0)


def test_lines_of_a_tenant_stand_together() -> None:
    trace = chrome_trace(
        [
            TraceRecord(0, "GPU-a", "alice", "window", MS),
            TraceRecord(1, "GPU-a", "bob", "wait", MS),
            TraceRecord(2, "GPU-a", "alice", "wait", MS),
        ]
    )

    order = {e["tid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "thread_sort_index"}
    threads = names_of_threads(trace)
    assert [threads[1, tid] for tid in sorted(order, key=order.__getitem__)] == [
        "alice: window",
        "alice: wait",
        "bob: wait",
    ]


@settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.builds(
            TraceRecord,
            time_ns=st.integers(0, 100),
            device=st.sampled_from(["GPU-a", "GPU-b"]),
            tenant=st.sampled_from(["alice", "bob"]),
            kind=st.sampled_from(["window", "use"]),
            duration_ns=st.integers(0, 30),
        )
    )
)
def test_nothing_is_lost_and_nothing_on_one_line_overlaps(records: list[TraceRecord]) -> None:
    trace = json.loads(json.dumps(chrome_trace(records)))

    lines = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "Xi":
            lines[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event.get("dur", 0.0)))
    assert sum(map(len, lines.values())) == len(records)
    for drawn in lines.values():
        ordered = sorted(drawn)
        assert all(one[1] <= other[0] + 1e-9 for one, other in pairwise(ordered))


def test_a_duration_below_nothing_is_refused() -> None:
    with pytest.raises(BadValueError, match="duration_ns"):
        chrome_trace([TraceRecord(0, "GPU-a", "alice", "window", -1)])


def test_a_file_that_cannot_be_written_is_refused_and_one_that_can_holds_the_trace(tmp_path: Path) -> None:
    records = [TraceRecord(0, "GPU-a", "alice", "window", MS)]

    with pytest.raises(BadValueError, match=r"--trace.*a folder that exists"):
        write_trace(records, tmp_path / "nowhere" / "out.json")
    write_trace(records, tmp_path / "out.json")

    assert json.loads((tmp_path / "out.json").read_text()) == chrome_trace(records)
