"""What is read off one run of an experiment. Pure: from the tenants' own progress to one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from governor.fairness import entitlements, largest_difference, parts
from governor.progress import delay_until, quantile, running_excess, spread
from governor.stage import Answer
from governor.work import Tenant

POINTS = 100.0  # per one
HOLD_SECONDS = 0.1
AWAY_LEVEL, BACK_LEVEL = 0.95, 0.85


@dataclass(frozen=True)
class Run:
    """One run of all tenants at once, in one arm.

    Attributes:
        tenants: Who.
        answers: What each says; same order.
        solo_ns: GPU time of one unit of each, measured natively in the same experiment.
        alone_rates: Units per second of each when it had the device for itself, natively; empty = not measured.
        begin, end: Seconds since the start between which is looked at.
    """

    tenants: Sequence[Tenant]
    answers: Sequence[Answer]
    solo_ns: Sequence[float]
    alone_rates: Sequence[float]
    begin: float
    end: float

    @property
    def rates(self) -> list[float]:
        """Units per second of each tenant."""
        return [answer.progress.rate(self.begin, self.end) for answer in self.answers]

    @property
    def had(self) -> list[float]:
        """Fraction of the device each tenant had: work done, by what it takes alone."""
        return [rate * solo * 1e-9 for rate, solo in zip(self.rates, self.solo_ns, strict=True)]

    @property
    def waits_us(self) -> list[float]:
        """How long the first tenant's launches took, µs: those that it made in the time that is looked at."""
        return [took for begin, took in self.answers[0].waits if begin >= self.begin]

    @property
    def weights(self) -> list[float]:
        """Promised shares."""
        return [float(tenant.share) for tenant in self.tenants]

    @property
    def wants(self) -> list[float]:
        """Fraction of the device each tenant uses when it never has to wait, at most 1."""
        return [min(1.0, rate * solo * 1e-9) for rate, solo in zip(self.alone_rates, self.solo_ns, strict=True)]

    @property
    def due(self) -> list[float]:
        """Fraction of the device each is entitled to, of what all had together."""
        return entitlements(self.weights, self.wants, sum(self.had))


def total_rate(run: Run) -> float:
    """Return units per second of all; for tenants of one kind of work."""
    return sum(run.rates)


def total_percent(run: Run) -> float:
    """Return what all had together, in per cent of the device."""
    return POINTS * sum(run.had)


def mean_percent(run: Run) -> float:
    """Return what the first tenant had, in per cent of the device."""
    return POINTS * run.had[0]


def _second_percents(run: Run) -> list[float]:
    unit_seconds = run.solo_ns[0] * 1e-9
    return [POINTS * rate * unit_seconds for rate in run.answers[0].progress.windows(run.begin, run.end, 1.0)]


def second_spread(run: Run) -> float:
    """Return the standard deviation of what the first tenant had in each second, in points."""
    return spread(_second_percents(run))


def worst_second(run: Run) -> float:
    """Return by how much the first tenant was off its ceiling in its worst second, in points."""
    ceiling = POINTS * float(run.tenants[0].ceiling)
    return max((abs(percent - ceiling) for percent in _second_percents(run)), default=0.0)


def excess_units(run: Run) -> float:
    """Return how far the first tenant was ever ahead of its ceiling, in units."""
    return running_excess(run.answers[0].progress, run.solo_ns[0] * 1e-9, float(run.tenants[0].ceiling))


def share_error(run: Run) -> float:
    """Return by how much the tenants' parts of what was had are off their shares, at worst, in points."""
    return POINTS * largest_difference(parts(run.had), parts(run.weights))


def split_error(run: Run) -> float:
    """Return by how much the tenants' parts of what was had are off their entitlements', at worst, in points."""
    return POINTS * largest_difference(parts(run.had), parts(run.due))


def entitlement_error(run: Run) -> float:
    """Return by how much what a tenant had is off its entitlement, at worst, in points of the device."""
    return POINTS * largest_difference(run.had, run.due)


def first_part(run: Run) -> float:
    """Return the first tenant's part of what was had, in per cent."""
    return POINTS * parts(run.had)[0]


def least_part(run: Run) -> float:
    """Return what the tenant with the least had of all that was had, in per cent."""
    return POINTS * min(parts(run.had))


def first_to_second(run: Run) -> float:
    """Return how many times as much the first tenant had as the second; 0 when the second had nothing."""
    return run.had[0] / run.had[1] if run.had[1] else 0.0


def wait_p50(run: Run) -> float:
    """Return the median of how long the first tenant's launches took, in milliseconds."""
    return quantile(run.waits_us, 0.5) / 1e3


def wait_p99(run: Run) -> float:
    """Return what 99 of 100 of the first tenant's launches took at most, in milliseconds."""
    return quantile(run.waits_us, 0.99) / 1e3


def other_switches(run: Run) -> float:
    """Return switches per second of the first tenant's threads that are not the program's own."""
    return run.answers[0].other_switches / run.end


def _pauses(run: Run) -> list[tuple[float, float]]:
    """Return the first tenant's pauses that are long enough to be looked at, with the time after them."""
    least = 2 * HOLD_SECONDS
    return [
        (begin, end)
        for begin, end in run.answers[0].pauses
        if end - begin >= least and end + least <= run.end and begin >= run.begin
    ]


def away_seconds(run: Run) -> float:
    """Return how long after the first tenant stopped the second had the device, at worst.

    It has it from when on it works at 95 % of its own rate alone, for a tenth of a second.
    """
    level = AWAY_LEVEL * 1e9 / run.solo_ns[1]
    return max(
        (
            delay_until(run.answers[1].progress, begin, level, HOLD_SECONDS, end - begin - HOLD_SECONDS)
            for begin, end in _pauses(run)
        ),
        default=float("nan"),
    )


def back_seconds(run: Run) -> float:
    """Return how long after the first tenant went on it had its share again, at worst.

    It has it from when on it works at 85 % of the rate of its share, for a tenth of a second; natively, where a tenth
    is lost by switching, two tenants get 90.
    """
    level = BACK_LEVEL * run.weights[0] / sum(run.weights) * 1e9 / run.solo_ns[0]
    return max(
        (
            delay_until(run.answers[0].progress, end, level, HOLD_SECONDS, (end - begin) - HOLD_SECONDS)
            for begin, end in _pauses(run)
        ),
        default=float("nan"),
    )


def handover_series(run: Run) -> dict[str, list[float]]:
    """Return what both tenants had in each 10 ms round the first pause, as fractions of the device."""
    pauses = _pauses(run)
    if not pauses:
        return {}
    begin, end = pauses[0][0] - 0.2, pauses[0][1] + 0.3
    return {
        name: [
            round(rate * run.solo_ns[number] * 1e-9, 3)
            for rate in run.answers[number].progress.windows(begin, end, 0.01)
        ]
        for number, name in enumerate(("on and off", "always"))
    } | {"stops_at": [0.2], "goes_on_at": [round(pauses[0][1] - begin, 3)]}
