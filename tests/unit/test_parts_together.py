"""What a slice and its parts use together."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_vgpu.agent.subslices import merged

ENFORCED = {"backend": "intercept"}


def usage(claim: str, **figures: Any) -> Any:
    device = {"uuid": "GPU-a", "memory_limit_bytes": 100, "launches": 2, "governed": None, **figures}
    return {"claim": claim, "time": 1.0, "devices": [device], "processes": [], "enforced_by": ENFORCED}


def together(**figures: tuple[Any, Any]) -> Any:
    whole, part = (usage(claim, **{name: both[at] for name, both in figures.items()}) for at, claim in enumerate("ab"))
    return merged(whole, [part])["devices"][0]


def test_counts_are_added_up_and_the_limit_is_the_slices() -> None:
    device = together(throttled_launches=(3, 4), gated_seconds=(0.5, 1.0))

    assert (device["launches"], device["throttled_launches"], device["gated_seconds"]) == (4, 7, 1.5)
    assert device["memory_limit_bytes"] == 100


def test_windows_overruns_and_violations_of_parts_are_the_slices() -> None:
    """Catches a bug where those of a Jupyter kernel in a part of a slice were shown to nobody."""
    one = {"entitled": 0.5, "windows": 1, "overruns": 2, "violations": 3, "closed_seconds": 4.0}
    other = {"entitled": 0.6, "windows": 10, "overruns": 20, "violations": 30, "closed_seconds": 40.0}

    governed = together(governed=(one, other))["governed"]

    assert governed == {"entitled": 1.0, "windows": 11, "overruns": 22, "violations": 33, "closed_seconds": 44.0}


@pytest.mark.parametrize("both", [({"windows": 1}, None), (None, {"windows": 1}), (None, None)])
def test_what_is_governed_in_one_only_is_what_is_known(both: tuple[Any, Any]) -> None:
    assert together(governed=both)["governed"] == (both[0] or both[1])


@pytest.mark.parametrize("figure", ["gpu_time_fraction", "waiting_fraction", "sm_usage"])
def test_a_part_of_a_second_is_never_more_than_all_of_it(figure: str) -> None:
    assert together(**{figure: (0.7, 0.6)})[figure] == 1.0
