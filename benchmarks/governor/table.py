"""The rows of issue 6, as experiments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from governor import figures
from governor.agent_rows import AgentKilled, AgentLoad
from governor.cases import IllegalAccess, LongLaunches
from governor.experiment import Experiment, Line, Sharing
from governor.gang import Gang
from governor.hook import HookCost
from governor.rows import Target
from governor.work import (
    BURN,
    CELL,
    COOPERATIVE,
    COPIES,
    EXTENDED,
    GPT,
    GRAPHS,
    MATMUL,
    MLP,
    QUEUED,
    RESNET,
    SMALL,
    STREAMS,
    Tenant,
    Work,
    busy,
    capped,
    equal,
    on_and_off,
    weighted,
)
from jupyter_vgpu.model import Priority

at_least, at_most, within = (partial(Target, kind) for kind in ("at least", "at most", "within"))


def _alone(work: Work) -> Experiment:
    lines = [
        Line(f"alone, no ceiling: {work.name}", figures.total_rate, "units/s", at_least(0.99, of_native=True)),
    ]
    if work is BURN:
        told = "alone: switches of other threads, beyond native"
        lines.append(Line(told, figures.other_switches, "1/s", at_most(1), beyond_native=True))
    return Sharing(f"alone {work.name}", "alone", {"": equal(work, 1)}, lines, seconds=3.0)


def _ceilings(
    work: Work,
    tolerance: float,
    percents: Sequence[int] = (10, 25, 50),
    spread: float | None = None,
    worst: float | None = None,
    excess: float | None = None,
    seconds: float = 10.0,
) -> Experiment:
    lines = []
    for percent in percents:
        name, variant = f"ceiling {percent} %: {work.name}", f"{percent} %"
        if excess is None:
            mean = within(percent, tolerance)
            lines.append(Line(f"{name}, mean", figures.mean_percent, "% of the GPU", mean, variant))
        else:
            told = f"{name}, most ahead of it ever"
            lines.append(Line(told, figures.excess_units, "launches", at_most(excess), variant))
        if spread is not None:
            told = f"{name}, deviation of seconds"
            lines.append(Line(told, figures.second_spread, "points", at_most(spread), variant))
        if worst is not None and percent == 25:
            lines.append(Line(f"{name}, worst second", figures.worst_second, "points", at_most(worst), variant))
    return Sharing(
        name=f"ceilings {work.name}",
        group="ceilings",
        variants={f"{percent} %": capped(work, percent) for percent in percents},
        lines=lines,
        seconds=seconds,
        repeats=1,
        native_seconds=2.0,
        settle_seconds=0.0,
    )


def _saturated(told: str, tenants: Sequence[Tenant]) -> Experiment:
    lines = [
        Line(f"saturated, {told}: total", figures.total_percent, "% of one alone", at_least(98.5)),
        Line(f"saturated, {told}: worst part", figures.share_error, "points off its share", at_most(1)),
    ]
    return Sharing(f"saturated {told}", "saturated", {"": tenants}, lines)


def _training(work: Work, count: int) -> Experiment:
    name = f"{count} × {work.name}, equal"
    line = Line(f"{name}: total", figures.total_rate, "units/s", at_least(0.99, of_native=True))
    return Sharing(name, "training", {"": equal(work, count)}, [line], seconds=4.0)


def _cheating(work: Work, why_not_simulated: str = "") -> Experiment:
    name = f"{work.name} against one at a time"
    half = equal(BURN, 2)[0].share
    return Sharing(
        name=name,
        group="cheating",
        variants={"": (Tenant(work, half), Tenant(BURN, half))},
        lines=[Line(name, figures.first_part, "% of what was had", within(50, 3))],
        seconds=3.0,
        why_not_simulated=why_not_simulated,
    )


def _cell(neighbours: int, launch_us: float) -> Experiment:
    neighbour = busy(launch_us)
    name = f"a cell beside {neighbours} × {neighbour.name}"
    share = equal(BURN, neighbours + 1)[0].share
    tenants = (Tenant(CELL, share), *(Tenant(neighbour, share),) * neighbours)
    lines = [
        Line(f"{name}: p50", figures.wait_p50, "ms", at_most(2.5)),
        Line(f"{name}: p99", figures.wait_p99, "ms", at_most(6)),
    ]
    return Sharing(name, "cell", {"": tenants}, lines, seconds=5.0)


def _others() -> list[Experiment]:
    half = equal(BURN, 2)[0].share
    weighted_gpt = Sharing(
        name="gpt 3:1",
        group="training",
        variants={"": weighted(GPT, 3, 1)},
        lines=[
            Line("gpt 3:1: split off its entitlement", figures.split_error, "points", at_most(3)),
            Line("gpt 3:1: total", figures.total_rate, "units/s", at_least(0.93, of_native=True)),
        ],
        seconds=5.0,
        measures_alone=True,
    )
    third = equal(BURN, 3)[0].share
    mixed = Sharing(
        name="burn, resnet and mlp",
        group="training",
        variants={"": (Tenant(BURN, third), Tenant(RESNET, third), Tenant(MLP, third))},
        lines=[
            Line("burn, resnet, mlp: worst off its entitlement", figures.entitlement_error, "points", at_most(3)),
            Line("burn, resnet, mlp: total", figures.total_percent, "% of the GPU", at_least(1, of_native=True)),
        ],
        seconds=5.0,
        measures_alone=True,
    )
    uneven = Sharing(
        name="5 us, 80:20",
        group="saturated",
        variants={"": weighted(busy(5), 4, 1)},
        lines=[Line("saturated, 5 us, 80:20: how many times as much", figures.first_to_second, "", within(4, 0.2))],
    )
    processes = Sharing(
        name="four processes against one",
        group="processes",
        variants={"": (Tenant(BURN, half, processes=4), Tenant(BURN, half))},
        lines=[Line("four processes against one", figures.first_part, "% of what was had", within(50, 2))],
    )
    handover = Sharing(
        name="idle share",
        group="handover",
        variants={"": (Tenant(on_and_off(500), half), Tenant(BURN, half))},
        lines=[
            Line("an idle share is in others' hands after", figures.away_seconds, "s", at_most(0.1)),
            Line("and back after", figures.back_seconds, "s", at_most(0.1), detail=figures.handover_series),
        ],
        seconds=5.0,
        settle_seconds=0.0,
    )
    small = Sharing(
        name="small launches",
        group="small",
        variants={"": equal(SMALL, 4)},
        lines=[Line("16 of 132 SMs: total", figures.total_rate, "launches/s", at_least(1, of_native=True))],
    )
    return [weighted_gpt, mixed, uneven, processes, handover, small]


def _priorities() -> Experiment:
    quarter = equal(BURN, 4)[0].share
    ranks: Sequence[Priority] = ("high", "normal", "low")
    return Sharing(
        name="priority classes",
        group="priorities",
        variants={"": tuple(Tenant(BURN, quarter, priority=rank) for rank in ranks)},
        lines=[
            Line(
                "three quarters promised: the high priority's part",
                figures.first_part,
                "% of what was had",
                within(50, 2),
            ),
            Line("three quarters promised: the least part", figures.least_part, "% of what was had", at_least(24)),
        ],
    )


def experiments() -> list[Experiment]:
    """Return all experiments, in the order they are run: what is quick and tells most comes first."""
    saturated = [
        _saturated("2 equal", equal(BURN, 2)),
        _saturated("4 equal", equal(BURN, 4)),
        _saturated("3:1", weighted(BURN, 3, 1)),
        _saturated("1:2:4", weighted(BURN, 1, 2, 4)),
    ]
    weighted_gpt, mixed, uneven, processes, handover, small = _others()
    return [
        HookCost(),
        *saturated,
        uneven,
        processes,
        handover,
        small,
        _priorities(),
        *(_cell(neighbours, launch_us) for launch_us in (20, 1000) for neighbours in (1, 3)),
        *(_cheating(work) for work in (STREAMS, QUEUED, busy(100_000))),
        LongLaunches(),
        IllegalAccess(),
        _cheating(COPIES, "a simulated board's copies take no time"),
        *(_alone(work) for work in (BURN, GPT, RESNET, MLP)),
        weighted_gpt,
        mixed,
        *(_training(work, count) for work in (GPT, RESNET, MLP) for count in (2, 4)),
        _ceilings(BURN, 0.5, spread=1.0, seconds=20.0),
        _ceilings(busy(3600), 1.0, spread=1.0, worst=2.0, seconds=20.0),
        _ceilings(busy(100_000), 0.0, excess=1.0, seconds=20.0),
        _ceilings(EXTENDED, 0.5, [25]),
        _ceilings(COOPERATIVE, 0.5, [25]),
        _ceilings(GRAPHS, 1.5),
        _ceilings(MATMUL, 1.5),
        _ceilings(GPT, 1.5),
        _ceilings(RESNET, 1.5),
        AgentKilled(),
        AgentLoad("8 active tenants", busy_tenants=8, idle_tenants=0, most_percent=3.0),
        AgentLoad("50 idle tenants", busy_tenants=0, idle_tenants=50, most_percent=0.5),
        Gang(),
    ]


GROUPS = sorted({experiment.group for experiment in experiments()})
