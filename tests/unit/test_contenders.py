"""Who launched on a device lately."""

from __future__ import annotations

from jupyter_vgpu.agent.contenders import Contenders
from jupyter_vgpu.agent.figures import History, Rates, Totals

A, B = ("GPU-1", "a"), ("GPU-1", "b")


def test_a_process_counts_for_a_second_after_its_launches_grew() -> None:
    contenders = Contenders()

    counts = [contenders.count({A: 5}, now)["GPU-1"] for now in (10.0, 10.5, 10.9, 11.0, 12.0)]

    assert counts == [1, 1, 1, 0, 0]


def test_one_that_never_launched_does_not_count() -> None:
    contenders = Contenders()

    assert contenders.count({A: 0, B: 1}, 1.0) == {"GPU-1": 1}


def test_one_that_is_gone_does_not_count() -> None:
    contenders = Contenders()
    contenders.count({A: 5, B: 5}, 1.0)

    assert contenders.count({B: 5}, 1.1) == {"GPU-1": 1}


def test_devices_are_counted_apart() -> None:
    contenders = Contenders()

    assert contenders.count({A: 1, ("GPU-2", "a"): 1, ("GPU-2", "b"): 1}, 0.0) == {"GPU-1": 1, "GPU-2": 2}


def test_a_figure_that_shrinks_is_no_launch() -> None:
    contenders = Contenders()
    contenders.count({A: 9}, 1.0)

    assert contenders.count({A: 3}, 3.0)["GPU-1"] == 0


def test_rates_are_of_the_last_second() -> None:
    history = History()
    for quarter in range(9):
        busy_ns = 0 if quarter < 5 else (quarter - 4) * 125_000_000
        history.add(quarter / 4, [Totals(launches=quarter * 10, busy_ns=busy_ns, waited_ns=0)])

    assert history.rates(0) == Rates(40, 40, gpu_time_fraction=0.5, waiting_fraction=0)


def test_rates_never_fall_below_nothing_or_pass_all() -> None:
    history = History()
    history.add(0.0, [Totals(10, 10, 0)])
    history.add(1.0, [Totals(5, 5, 10**12)])

    assert history.rates(0) == Rates(0, 0, 0, 1)


def test_who_pays_back_what_was_charged_too_much_is_at_work_all_the_same() -> None:
    """An honest tenant of many streams was accused for a second of nothing, seen on the H200."""
    history = History()
    for quarter in range(5):
        history.add(
            quarter / 4,
            [Totals(busy_ns=800_000_000, sm_ns=400_000_000, ahead_ns=600_000_000 - quarter * 125_000_000)],
        )

    rates = history.rates(0)

    assert (rates.gpu_time_fraction, rates.sm_usage) == (0.5, 0.25)


def test_time_given_back_is_of_before_and_takes_nothing_off_this_second() -> None:
    history = History()
    history.add(0.0, [Totals(busy_ns=800_000_000)])
    history.add(1.0, [Totals(busy_ns=1_000_000_000, sm_ns=100_000_000, ahead_ns=900_000_000)])

    assert history.rates(0) == Rates(gpu_time_fraction=0.2, sm_usage=0.1)


def test_time_that_is_said_to_come_back_again_and_again_hides_no_use() -> None:
    """Catches: each fall counted as use, and no rise against it. Who lies could so say that it had nothing."""
    for period in range(2, 12):
        history = History()
        shown = []
        for look in range(4 * period):
            history.add(look / 4, [Totals(ahead_ns=500_000_000 * (look % period < period // 2))])
            shown.append(history.rates(0).gpu_time_fraction)

        assert sum(shown[period:]) / len(shown[period:]) <= 0.25, period


def test_the_least_rate_is_that_of_the_slowest_part() -> None:
    history = History()
    for at, launches in ((0.0, 0), (0.5, 100), (1.0, 110)):
        history.add(at, [Totals(launches)])

    rates = history.rates(0)

    assert (rates.launches_per_second, rates.least_launches_per_second) == (110, 20)
