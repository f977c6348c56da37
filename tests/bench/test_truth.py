"""What a meter is held against: work of known length, and how sure that length is."""

from __future__ import annotations

import pytest
from meter.truth import Alone, medians


def test_known_time_is_counted_with_the_mean_of_before_and_after() -> None:
    alone = Alone(before_ns=90.0, after_ns=110.0)

    assert alone.known_seconds(1e7) == pytest.approx(1.0)
    assert alone.spread == pytest.approx(0.2)


def test_a_truth_that_stayed_the_same_is_sure() -> None:
    assert Alone(before_ns=20e3, after_ns=20e3).spread == 0


def test_waiting_is_what_is_left_of_the_time_when_a_unit_takes_its_mean() -> None:
    """The worker takes off what a unit took before; a unit took a microsecond longer after."""
    alone = Alone(before_ns=20e3, after_ns=21e3)

    assert alone.waited_seconds(units=1000, waited_ns=2e9) == pytest.approx(2 - 1000 * 0.5e-6)


def test_a_clock_is_the_middle_of_what_was_seen_in_its_span() -> None:
    seen = [(0.5, 100), (1.0, 1980), (1.5, 1755), (2.0, 1740), (3.5, 1980)]

    assert medians(seen, {"before": (0.9, 1.1), "during": (1.4, 2.1), "after": (2.5, 3.0)}) == {
        "before": 1980.0,
        "during": 1747.5,
    }
