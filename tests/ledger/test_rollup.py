"""Readings of counters become hours, whatever clocks and restarts do in between."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vgpu.ledger import Part, Reading, parts_between

NOON = 1_800_014_400  # a multiple of 3600
GIB = 1 << 30


def between(before: Reading, now: Reading, is_fresh: bool = False, gap: float = 300.0) -> list[Part]:
    return parts_between(before, now, is_fresh, gap)


def test_what_was_used_within_an_hour_goes_to_that_hour() -> None:
    parts = between(Reading(NOON + 60, 5.0, 1.0, 2 * GIB), Reading(NOON + 75, 12.0, 1.5, 4 * GIB))

    assert parts == [Part(NOON, 7.0, 15 * 3.0 * GIB, 0.5)]


def test_what_was_used_over_the_turn_of_an_hour_is_split_by_time() -> None:
    parts = between(Reading(NOON - 30, 0.0, 0.0, GIB), Reading(NOON + 10, 40.0, 4.0, GIB))

    assert parts == [Part(NOON - 3600, 30.0, 30.0 * GIB, 3.0), Part(NOON, 10.0, 10.0 * GIB, 1.0)]


def test_counters_that_began_again_lose_nothing_of_what_they_count_since() -> None:
    (part,) = between(Reading(NOON, 500.0, 50.0, 0), Reading(NOON + 15, 510.0, 3.0, 0), is_fresh=True)

    assert (part.gpu_seconds, part.waited_seconds) == (510.0, 3.0)


def test_a_counter_that_went_back_is_never_a_negative_use() -> None:
    (part,) = between(Reading(NOON, 500.0, 50.0, 0), Reading(NOON + 15, 510.0, 49.9, 0))

    assert (part.gpu_seconds, part.waited_seconds) == (10.0, 0.0)


def test_a_clock_that_was_put_back_costs_no_memory_and_loses_no_gpu_time() -> None:
    parts = between(Reading(NOON + 3600, 1.0, 0.0, GIB), Reading(NOON + 5, 3.0, 0.0, GIB))

    assert parts == [Part(NOON, 2.0, 0.0, 0.0)]


def test_nobody_knows_what_was_held_in_the_middle_of_a_long_gap() -> None:
    parts = between(Reading(NOON, 0.0, 0.0, GIB), Reading(NOON + 36_000, 100.0, 0.0, GIB))

    assert sum(part.memory_byte_seconds for part in parts) == pytest.approx(300.0 * GIB)
    assert sum(part.gpu_seconds for part in parts) == pytest.approx(100.0)
    assert len(parts) == 10


@given(
    moments=st.lists(st.floats(NOON - 20_000, NOON + 20_000), min_size=2, max_size=30),
    steps=st.lists(st.floats(0, 100), min_size=30, max_size=30),
)
def test_no_second_of_gpu_time_is_lost_or_made_up_whatever_the_clock_does(
    moments: list[float], steps: list[float]
) -> None:
    readings, total = [], 0.0
    for moment, step in zip(moments, steps, strict=False):
        total += step
        readings.append(Reading(moment, total, total / 2, GIB))

    parts = [part for pair in pairwise(readings) for part in between(*pair)]

    assert sum(part.gpu_seconds for part in parts) == pytest.approx(total - readings[0].gpu_seconds)
    assert all(part.starts_at % 3600 == 0 and min(part.gpu_seconds, part.memory_byte_seconds) >= 0 for part in parts)
