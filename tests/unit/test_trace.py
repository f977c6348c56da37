"""The governor's records as a Chrome trace."""

from __future__ import annotations

from typing import Any

from jupyter_vgpu.cli.trace import chrome_trace
from jupyter_vgpu.client import TraceInfo


def trace_of(*records: tuple[int, int, str, int]) -> dict[str, Any]:
    trace: TraceInfo = {
        "seconds": 1.0,
        "lost": 3,
        "runners": [
            {"runner": 7, "claim": "c1", "tenant": "alice", "profile": "1/4 GPU", "uuid": "GPU-b"},
            {"runner": 9, "claim": "c2", "tenant": "bob", "profile": "1/4 GPU", "uuid": "GPU-a"},
        ],
        "records": list(records),
    }
    return chrome_trace(trace)


def of_kind(trace: dict[str, Any], ph: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == ph]


def test_a_window_is_a_bar_in_the_row_of_its_claim() -> None:
    trace = trace_of((5_000_000, 7, "window begun", 0), (15_000_000, 7, "window over", 0))

    assert of_kind(trace, "X") == [{"ph": "X", "name": "window", "pid": 2, "tid": 7, "ts": 0.0, "dur": 10_000.0}]


def test_each_device_and_each_claim_has_its_name() -> None:
    names = {(event["name"], event["args"]["name"]) for event in of_kind(trace_of(), "M")}

    assert ("process_name", "GPU-a") in names
    assert ("thread_name", "alice (1/4 GPU, claim c1)") in names


def test_a_gate_that_is_still_closed_at_the_end_is_a_bar_up_to_there() -> None:
    trace = trace_of((1000, 9, "gate closed", 0), (4000, 7, "charged", 20_000))

    assert [(bar["name"], bar["dur"]) for bar in of_kind(trace, "X")] == [("gate closed", 3.0)]


def test_an_end_without_its_beginning_is_left_out() -> None:
    assert of_kind(trace_of((1000, 9, "gate opened", 0), (2000, 9, "window over", 0)), "X") == []


def test_use_is_a_counter_in_milliseconds() -> None:
    (counter,) = of_kind(trace_of((1000, 9, "charged", 1_500_000)), "C")

    assert counter["args"] == {"ms": 1.5}


def test_records_of_a_claim_that_has_gone_are_left_out_and_lost_ones_are_told() -> None:
    trace = trace_of((1000, 55, "charged", 1))

    assert of_kind(trace, "C") == []
    assert trace["otherData"] == {"lost records": 3}
