"""The hour that the panel can draw: by the second, then by ten seconds, with gaps where nobody looked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jupyter_vgpu.client import UsageInfo
from jupyter_vgpu.server.history import History

Server = Any
START = 1_800_000_000.0


def usage(at: float, memory_bytes: int = 0, claim: str = "c1", **device: float) -> UsageInfo:
    """Return what the agent would say `at` seconds after the start."""
    figures = {"uuid": "GPU-1", "memory_used_bytes": memory_bytes, **device}
    return cast(UsageInfo, {"claim": claim, "time": START + at, "devices": [figures]})


def history_of(*readings: UsageInfo) -> dict[str, Any]:
    """Return the one device's history after the readings."""
    history = History()
    for reading in readings:
        history.add(reading)
    [device] = history.as_json()
    return cast("dict[str, Any]", device)


def test_each_reading_is_a_point() -> None:
    history = history_of(
        usage(0, 5, gpu_time_fraction=0.25, waiting_fraction=0.5),
        usage(1, 7, gpu_time_fraction=0.75, waiting_fraction=0.0),
    )

    assert history == {
        "uuid": "GPU-1",
        "time": [START, START + 1],
        "memory_bytes": [5, 7],
        "gpu_time_fraction": [0.25, 0.75],
        "waiting_fraction": [0.5, 0.0],
    }


def test_time_that_an_agent_does_not_measure_is_unknown_not_zero() -> None:
    history = history_of(usage(0, 5))

    assert (history["gpu_time_fraction"], history["waiting_fraction"]) == ([None], [None])


def test_a_reading_that_is_not_newer_is_left_out() -> None:
    history = history_of(usage(1, 5), usage(1, 6), usage(0, 7))

    assert history["memory_bytes"] == [5]


def test_time_in_which_nobody_looked_is_a_gap() -> None:
    history = history_of(usage(0, 5), usage(1, 5), usage(60, 7))

    assert history["memory_bytes"] == [5, 5, None, 7]


def test_what_lasted_while_nothing_was_told_lasted_until_a_second_before_the_change() -> None:
    history = history_of(usage(0, 5), usage(5, 5), usage(9, 7), usage(10, 8))

    assert [at - START for at in history["time"]] == [0, 5, 8, 9, 10]
    assert history["memory_bytes"] == [5, 5, 5, 7, 8]


def test_what_is_older_than_five_minutes_is_kept_by_ten_seconds() -> None:
    readings = [usage(at, memory_bytes=at % 10, gpu_time_fraction=(at % 10) / 10) for at in range(600)]

    history = history_of(*readings)

    fine = [at for at in history["time"] if at >= START + 600 - 1 - 300]
    coarse = list(zip(history["time"], history["memory_bytes"], history["gpu_time_fraction"], strict=True))[:20]
    assert len(fine) == 301
    # The most memory and the mean of the fractions of each ten seconds.
    assert [(memory, fraction) for _, memory, fraction in coarse] == [(9, 0.45)] * 20
    assert None not in history["memory_bytes"]


def test_more_than_an_hour_is_not_kept() -> None:
    history = history_of(*(usage(at, at) for at in range(2 * 3600)))

    assert history["time"][0] >= START + 3600 - 11
    assert len(history["time"]) < 301 + 331 + 2
    assert None not in history["memory_bytes"]


def test_another_claim_starts_anew() -> None:
    history = history_of(usage(0, 5), usage(1, 6, claim="c2"))

    assert history["memory_bytes"] == [6]


@pytest.mark.usefixtures("at_work")
def test_a_stream_begins_with_the_history(server: Server, open_stream: Any) -> None:
    first = open_stream(server)
    seen = [first.next() for _ in range(3)]

    [later] = open_stream(server).next()["history"]

    assert "history" in seen[0]
    assert "history" not in seen[1]
    assert {round(event["usage"]["time"], 3) for event in seen} <= set(later["time"])
    assert later["uuid"] == seen[0]["usage"]["devices"][0]["uuid"]
    assert server.get("jupyter-vgpu/history")["history"][0]["time"][-1] > later["time"][0]
