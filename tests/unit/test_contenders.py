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


def test_the_least_rate_is_that_of_the_slowest_part() -> None:
    history = History()
    for at, launches in ((0.0, 0), (0.5, 100), (1.0, 110)):
        history.add(at, [Totals(launches)])

    rates = history.rates(0)

    assert (rates.launches_per_second, rates.least_launches_per_second) == (110, 20)
