"""`jupyter vgpu status --trace`: who held and used the GPU when, of two tenants on the simulated board."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.launching import begin, parts, some_time

MOST_BEYOND_US = 20_000.0


@pytest.mark.slow
def test_a_trace_shows_who_held_and_who_used_the_gpu_when(node: Any, claim: Callable[..., Any], tmp_path: Path) -> None:
    three, one = claim(1 << 30, share="3/4", tenant="alice"), claim(1 << 30, share="1/4", tenant="bob")
    programs = [begin(three), begin(one)]
    some_time(lambda figures: figures[0] > 2 * figures[1] > 0.2, lambda: parts(programs), "three to one")
    command = (sys.executable, "-m", "jupyter_vgpu.cli", "status", "--agent", str(node.runtime_dir))

    told = subprocess.run(
        [*command, "--trace", "out.json", "--trace-seconds", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    assert "open it at https://ui.perfetto.dev" in told.stdout
    trace = json.loads((tmp_path / "out.json").read_text())
    events = trace["traceEvents"]
    drawn = [event for event in events if event["ph"] != "M"]
    check_form(events, drawn)
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    (device,) = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert device == three.usage()["devices"][0]["uuid"]
    lines = defaultdict(list)
    for event in drawn:
        lines[names[event["pid"], event["tid"]]].append((event["ts"], event["ts"] + event.get("dur", 0.0)))
    for held, tenant in ((three, "alice"), (one, "bob")):
        own = [line for line in lines if line.startswith(f"{tenant} (test, {held.claim_id})")]
        assert {line.rpartition(": ")[2] for line in own} >= {"window", "use", "under way", "gate closed"}, own
    windows = sorted(bar for line, bars in lines.items() if line.endswith(": window") for bar in bars)
    assert all(one[1] <= other[0] for one, other in pairwise(windows)), "a window is one tenant's alone"
    used = {line.partition(" ")[0]: length(bars) for line, bars in lines.items() if line.endswith(": use")}
    assert used["alice"] > 1.5 * used["bob"] > 0


def length(bars: list[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in bars)


def check_form(events: list[dict[str, Any]], drawn: list[dict[str, Any]]) -> None:
    """Fail where a viewer would; source: "Trace Event Format" (Google, 2016)."""
    assert {event["ph"] for event in events} <= {"X", "i", "M"}
    assert all(type(event[number]) is int for event in events for number in ("pid", "tid"))
    assert all(event["args"] for event in events if event["ph"] == "M")
    assert all(event["s"] == "t" for event in drawn if event["ph"] == "i")
    assert all(event["dur"] > 0 for event in drawn if event["ph"] == "X")
    times = [event["ts"] for event in drawn]
    assert times == sorted(times)
    assert times[0] == 0
    assert max(event["ts"] + event.get("dur", 0.0) for event in drawn) < 2e6 + MOST_BEYOND_US
    assert {(event["pid"], event["tid"]) for event in drawn} <= {
        (event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"
    }
