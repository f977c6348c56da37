"""What a trace shows of the governor's records."""

from __future__ import annotations

from jupyter_vgpu.cli.scheduling import happenings
from jupyter_vgpu.client import TraceInfo


def told(*records: tuple[int, int, str, int]) -> list[tuple[str, str, int, int]]:
    trace: TraceInfo = {
        "seconds": 1.0,
        "lost": 0,
        "runners": [
            {"runner": 7, "claim": "c1", "tenant": "alice", "profile": "1/4 GPU", "uuid": "GPU-b"},
            {"runner": 9, "claim": "c2", "tenant": "bob", "profile": "1/4 GPU", "uuid": "GPU-a"},
        ],
        "records": list(records),
    }
    return [(each.device, each.kind, each.time_ns, each.duration_ns) for each in happenings(trace)]


def test_a_window_lasts_from_its_beginning_to_its_end() -> None:
    assert told((5, 7, "window begun", 0), (15, 7, "window over", 0)) == [("GPU-b", "window", 5, 10)]


def test_a_gate_that_is_closed_at_the_end_is_so_up_to_there() -> None:
    assert told((10, 9, "gate closed", 0), (40, 7, "window over", 0)) == [("GPU-a", "gate closed", 10, 30)]


def test_an_end_without_its_beginning_is_left_out() -> None:
    assert told((10, 9, "gate opened", 0), (20, 9, "window over", 0)) == []


def test_use_is_not_shown_beyond_the_next_look() -> None:
    assert told((0, 9, "charged", 30), (20, 9, "charged", 5), (100, 9, "under way", 0)) == [
        ("GPU-a", "use", 0, 20),
        ("GPU-a", "use", 20, 5),
    ]


def test_under_way_lasts_while_anything_is() -> None:
    assert told((0, 9, "under way", 3), (20, 9, "under way", 9), (30, 9, "under way", 0)) == [
        ("GPU-a", "under way", 0, 30)
    ]


def test_a_claim_that_has_gone_is_left_out() -> None:
    assert told((0, 55, "charged", 1)) == []
