"""What is read off a run: parts, entitlements, ceilings, handovers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from governor import figures
from governor.figures import Run
from governor.progress import Progress
from governor.stage import Answer
from governor.work import BURN, Tenant, capped, weighted

UNIT_NS = 1e6  # a thousand units a second are the whole device


def worked(*fractions: float) -> Answer:
    """Return a tenant that had these fractions of the device, each for a second."""
    return Answer(Progress.from_bins([fraction for fraction in fractions for _ in range(1000)], 1e-3))


def run(tenants: Sequence[Tenant], answers: Sequence[Answer], wants: Sequence[float] = ()) -> Run:
    seconds = answers[0].progress.seconds
    return Run(tenants, answers, [UNIT_NS] * len(tenants), [1000 * want for want in wants], 0, seconds)


def test_the_total_and_the_worst_part() -> None:
    told = run(weighted(BURN, 3, 1), [worked(0.7, 0.7), worked(0.26, 0.26)])

    assert figures.total_percent(told) == pytest.approx(96)
    assert figures.total_rate(told) == pytest.approx(960)
    assert figures.share_error(told) == pytest.approx(75 - 100 * 0.7 / 0.96)
    assert figures.first_to_second(told) == pytest.approx(0.7 / 0.26)
    assert figures.least_part(told) == pytest.approx(100 * 0.26 / 0.96)


def test_entitlements_are_of_what_there_was() -> None:
    third = Tenant(BURN, Fraction(1, 3))
    # The last wants 0.2 only; of 0.9 in all, 0.35 are due to each of the others.
    told = run((third, third, third), [worked(0.4), worked(0.3), worked(0.2)], wants=(1.0, 0.6, 0.2))

    assert told.due == pytest.approx([0.35, 0.35, 0.2])
    assert figures.entitlement_error(told) == pytest.approx(5)
    assert figures.split_error(told) == pytest.approx(5 / 0.9)


def test_a_ceiling_is_looked_at_over_all_and_by_the_second() -> None:
    told = run(capped(BURN, 25), [worked(0.24, 0.26, 0.25, 0.29)])

    assert figures.mean_percent(told) == pytest.approx(26)
    assert figures.worst_second(told) == pytest.approx(4)
    assert figures.second_spread(told) == pytest.approx(1.87, abs=0.01)


def test_an_idle_share_is_away_and_back_with_a_delay() -> None:
    # One works for half a second and pauses for half a second; the other takes 60 ms to notice, either time.
    def bins(*stretches: tuple[float, int]) -> Progress:
        return Progress.from_bins([rate for rate, count in stretches for _ in range(count)] * 3, 1e-3)

    on_and_off = bins((0.2, 60), (0.5, 440), (0.0, 500))
    always = bins((0.5, 560), (1.0, 440))
    pauses = [(number + 0.5, number + 1.0) for number in range(3)]
    told = run(weighted(BURN, 1, 1), [Answer(on_and_off, pauses=pauses), Answer(always)])

    assert figures.away_seconds(told) == pytest.approx(0.05, abs=0.012)
    assert figures.back_seconds(told) == pytest.approx(0.035, abs=0.015)
    series = figures.handover_series(told)
    assert series["always"][:20] == [0.5] * 20
    assert series["on and off"][20:30] == [0.0] * 10


def test_waits_are_shown_in_milliseconds() -> None:
    waits = [(0.5, float(1000 * number)) for number in range(1, 101)]
    told = run(weighted(BURN, 1), [Answer(Progress.from_times([1.0]), waits=waits)])

    assert (figures.wait_p50(told), figures.wait_p99(told)) == (50, 99)


def test_a_wait_that_began_before_what_is_looked_at_does_not_count() -> None:
    told = run(weighted(BURN, 1), [Answer(Progress.from_times([1.0]), waits=[(0.1, 7000.0), (0.2, 2000.0)])])

    assert figures.wait_p99(replace(told, begin=0.2)) == 2
    assert figures.wait_p99(replace(told, begin=0.1)) == 7
