"""From finished units to rates, pauses, excess and delays."""

from __future__ import annotations

import pytest
from governor.progress import Progress, delay_until, quantile, running_excess, spread


def steady(rate: float, seconds: float) -> Progress:
    """Return a tenant that finishes `rate` units a second, by milliseconds."""
    return Progress.from_bins([rate / 1000] * round(seconds * 1000), 1e-3)


def then(*stretches: tuple[float, float]) -> Progress:
    """Return a tenant that works at one rate for some seconds, then at the next."""
    return Progress.from_bins([rate / 1000 for rate, seconds in stretches for _ in range(round(seconds * 1000))], 1e-3)


def test_units_are_counted_where_they_were_finished() -> None:
    progress = Progress.from_bins([4, 4, 2], 0.5)

    assert [progress.at(time) for time in (0, 0.5, 1.0, 1.5, 9.0)] == [0, 4, 8, 10, 10]
    assert progress.rate(0.5, 1.0) == 8
    assert list(progress.points()) == [(0.5, 4), (1.0, 8), (1.5, 10)]


def test_where_nothing_was_finished_the_next_unit_was_on_its_way() -> None:
    progress = Progress.from_bins([0, 4, 0, 2, 0], 0.5)

    assert [progress.at(time) for time in (0.5, 1.0, 1.5, 2.0, 2.5)] == [2, 4, 5, 6, 6]
    assert list(progress.points()) == [(1.0, 4), (2.0, 6)]


def test_a_long_unit_is_on_its_way_between_two_moments() -> None:
    progress = Progress.from_times([1.0, 3.0])

    assert progress.at(2.0) == 1.5


def test_processes_of_a_tenant_count_together() -> None:
    together = Progress.total([steady(100, 1), steady(50, 1), Progress.from_times([0.5])])

    assert together.at(1.0) == pytest.approx(151)


def test_windows_are_whole_ones() -> None:
    progress = then((10, 1), (30, 1), (20, 0.5))

    assert progress.windows(0, 2.5, 1.0) == pytest.approx([10, 30])
    assert spread(progress.windows(0, 2.5, 1.0)) == pytest.approx(10)
    assert spread([5.0]) == 0


@pytest.mark.parametrize(
    ("progress", "pause"),
    [
        pytest.param(then((100, 1), (0, 0.7), (100, 1)), 0.7, id="in the middle"),
        pytest.param(then((0, 0.4), (100, 2.3)), 0.4, id="at the start"),
        pytest.param(then((100, 1), (0, 1.7)), 1.7, id="to the end"),
        pytest.param(then((0, 2.7)), 2.7, id="all the time"),
    ],
)
def test_the_longest_pause_is_found_wherever_it_is(progress: Progress, pause: float) -> None:
    assert progress.longest_pause(0, 2.7) == pytest.approx(pause, abs=0.0021)


def test_excess_is_what_is_ahead_of_the_ceiling_at_any_time() -> None:
    # Launches of 100 ms under a ceiling of a tenth: one a second, made at once, or three first.
    even = Progress.from_times([0.1, 1.1, 2.1, 3.1])
    eager = Progress.from_times([0.1, 0.2, 0.3, 3.1])

    assert running_excess(even, 0.1, 0.1) == pytest.approx(0.9)
    assert running_excess(eager, 0.1, 0.1) == pytest.approx(2.7)
    assert running_excess(Progress([], []), 0.1, 0.1) == 0


def test_a_delay_lasts_until_the_rate_is_there_and_stays() -> None:
    slow_start = then((50, 1), (50, 0.06), (100, 1))
    a_flash = then((50, 1), (100, 0.02), (50, 0.2), (100, 1))

    assert delay_until(slow_start, 1.0, 95, 0.1, 0.5) == pytest.approx(0.05, abs=0.011)
    assert delay_until(a_flash, 1.0, 95, 0.1, 0.5) == pytest.approx(0.21, abs=0.011)
    assert delay_until(steady(50, 2), 1.0, 95, 0.1, 0.5) == 0.5


@pytest.mark.parametrize(("part", "figure"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_quantile_is_a_figure_that_was_measured(part: float, figure: float) -> None:
    assert quantile([float(number) for number in range(100, 0, -1)], part) == figure
    assert quantile([], part) == 0
