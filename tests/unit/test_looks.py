"""Since when what is given out was free: for whom it counts as waited, and for whom as our own slowness."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from jupyter_vgpu.hub.bell import Rings
from jupyter_vgpu.hub.waits import Look, look_after

EARLY, LATE, NOW = 9.0, 12.0, 20.0
BEFORE = Look(free_at=9.0, ready_at=9.5, began_at=10.0, known_at=-math.inf, late_seconds=1.0, left_nobody=True)
RINGS = pytest.mark.parametrize(
    ("rings", "free_at"),
    [
        pytest.param(Rings(freed_at=12.0, woken_at=11.0), 12.0, id="when something was given back"),
        pytest.param(Rings(woken_at=11.0), 11.0, id="where nothing was when somebody came"),
        pytest.param(Rings(), NOW, id="where nobody rang now"),
    ],
)


@RINGS
def test_for_who_was_left_without_by_the_look_before_it_came_free_later(rings: Rings, free_at: float) -> None:
    look = look_after(BEFORE, rings, now=NOW, ready_at=15.0, opened_at=0.0)

    assert look.free_for(seated_at=EARLY, opened_at=0.0) == free_at
    assert (look.began_at, look.ready_at, look.late_seconds) == (NOW, max(free_at, 15.0), 0.0)


def test_looking_again_at_once_it_came_free_after_the_look_before_unless_a_bell_says_later() -> None:
    silent = look_after(BEFORE, Rings(), NOW, NOW, 0.0, otherwise=BEFORE.began_at)
    rung = look_after(BEFORE, Rings(freed_at=12.0, woken_at=12.0), NOW, NOW, 0.0, otherwise=BEFORE.began_at)

    assert (silent.free_for(EARLY, 0.0), rung.free_for(EARLY, 0.0)) == (BEFORE.began_at, 12.0)


@pytest.mark.parametrize("opened_at", [0.0, 5.0])
def test_who_came_after_the_look_before_waited_for_the_queues_opening_only(opened_at: float) -> None:
    look = look_after(BEFORE, Rings(freed_at=13.0, woken_at=12.0), NOW, NOW, opened_at)

    assert look.free_for(seated_at=LATE, opened_at=opened_at) == opened_at


def test_a_look_that_left_somebody_out_says_nothing_of_when_things_came_free() -> None:
    left_out = replace(BEFORE, left_nobody=False, known_at=3.0)

    look = look_after(left_out, Rings(freed_at=12.0, woken_at=12.0), NOW, NOW, 0.0)

    assert look.known_at == 3.0
    assert look.free_for(seated_at=EARLY, opened_at=0.0) == 0.0
    assert look_after(None, Rings(woken_at=8.0), NOW, NOW, 0.0).free_for(seated_at=EARLY, opened_at=0.0) == 0.0


def test_nothing_counts_as_free_before_the_queue_is_served() -> None:
    assert look_after(None, Rings(freed_at=8.0, woken_at=8.0), NOW, 6.0, opened_at=15.0).free_at == 15.0
