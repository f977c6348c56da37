"""Tenants whose work is known: what the meter says they had, against units × time alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

from meter import estimators, truth
from meter.cases import Case
from meter.tenants import Stage, Tenant, work

LEARN_SECONDS = 1.0
SETTLE_SECONDS = 0.4


def alone(tenants: Sequence[Tenant], case: Case) -> tuple[list[float], list[float]]:
    """Return ns a unit that each tenant measures alone, now; and what the first says of other ways to see it."""
    told = []
    for tenant in tenants:
        tenant.tell("solo")
        told += tenant.hear()
    if case.command[0] != "train":
        return told, []
    tenants[0].tell("otherwise")
    return told, tenants[0].hear()


def measure(stage: Stage, case: Case, seconds: float) -> list[dict[str, object]]:
    """Return the row of one case."""
    clocks = truth.Clocks(stage.nvml)
    with stage.tenants(case) as tenants, clocks.read():
        measured = tenants[: case.tenants]
        work(tenants, LEARN_SECONDS)
        with clocks.span("before"):
            before, before_otherwise = alone(measured, case)
        time.sleep(SETTLE_SECONDS)

        running = [
            kind(stage.agent.hub, tenants, seconds, stage.nvml)
            for kind in estimators.ALL
            if len(tenants) <= kind.most_tenants and (stage.nvml is not None or not kind.needs_nvml)
        ]
        for estimator in running:
            estimator.start()
        with clocks.span("during"):
            for tenant in tenants:
                tenant.tell(f"run {seconds}")
            for estimator in running:
                estimator.watch()
            answers = [tenant.hear() for tenant in tenants]
        time.sleep(SETTLE_SECONDS)
        said = {estimator.name: estimator.stop() for estimator in running}
        with clocks.span("after"):
            after, after_otherwise = alone(measured, case)
        wrongly_flagged = stage.flagged(tenants)

    truths = [truth.Alone(early, late) for early, late in zip(before, after, strict=True)]
    if case.quantity == "wait":
        known = [one.waited_seconds(answer[0], answer[2]) for one, answer in zip(truths, answers, strict=False)]
        metered = said["meter waited"]
    else:
        known = [one.known_seconds(answer[0]) for one, answer in zip(truths, answers, strict=False)]
        metered = said["meter"]
    errors = [metered[i] / known[i] - 1 for i in range(case.tenants)]
    worst = max(errors, key=abs)
    others = {
        name: max((figures[i] / known[i] - 1 for i in range(case.tenants)), key=abs)
        for name, figures in said.items()
        if figures and not name.startswith("meter") and case.quantity == "gpu_time"
    }
    row = {
        **case.as_row(),
        "alone_us": round(truths[0].mean_ns / 1e3, 2),
        # Of each measured tenant.
        "alone_before_us": [round(one.before_ns / 1e3, 2) for one in truths],
        "alone_after_us": [round(one.after_ns / 1e3, 2) for one in truths],
        # What the first says of other ways to see it, before and after (train_work.py).
        "alone_otherwise_us": [round(figure / 1e3, 2) for figure in before_otherwise + after_otherwise],
        "sm_clock_mhz": clocks.medians_mhz(),
        "units": [answer[0] for answer in answers],
        "known_seconds": [round(figure, 5) for figure in known],
        "metered_seconds": [round(metered[i], 5) for i in range(case.tenants)],
        "wall_seconds": round(max(answer[1] for answer in answers), 4),
        "error": round(worst, 4),
        "truth_spread": round(max(one.spread for one in truths), 4),
        "wrongly_flagged": wrongly_flagged,
        "others_errors": {name: round(error, 4) for name, error in others.items()},
        "met": abs(worst) <= case.target,
    }
    return [row]
