"""One launch of seconds, as persistent kernels are: what the meter says of it while it runs, and after it."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from bench.processes import WorkerError

from meter import truth
from meter.cases import Case
from meter.estimators import Meter
from meter.known_work import LEARN_SECONDS, SETTLE_SECONDS
from meter.tenants import ANSWER_SECONDS, Stage, Tenant, work

LOOK_SECONDS = 0.1
# After its end, until the meter says within the target what it had, or never does.
LATE_SECONDS = 2.0

Look = tuple[float, list[float]]


def said_at(looks: Sequence[Look], seconds: float, place: int = 0) -> float:
    """Return what the meter said at a moment: at the last look until then; 0 before the first.

    Args:
        looks: When, seconds, and what, by tenant; in order.
        seconds: The moment.
        place: Whose figure.
    """
    return next((figures[place] for when, figures in reversed(looks) if when <= seconds), 0.0)


def told_after(looks: Sequence[Look], end: float, known: float, target: float) -> float | None:
    """Return how long after `end` the meter first said what is known, give or take `target`; `None` = never."""
    right = [when for when, figures in looks if abs(figures[0] / known - 1) <= target]
    return max(0.0, right[0] - end) if right else None


def measure(stage: Stage, case: Case, seconds: float) -> list[dict[str, object]]:
    """Return two rows: half-way through the launch, and when it was over.

    The truth is ten times what the same code takes for a tenth of the time under another name, so that nothing of the
    launch itself is known to the meter before. Where the launch is its program's first, even that is measured after it.
    """
    with stage.tenants(case) as tenants:
        one, neighbours = tenants[0], tenants[1:]
        work(neighbours, LEARN_SECONDS)
        before = [] if case.is_first else _alone(tenants)
        time.sleep(SETTLE_SECONDS)
        meter = Meter(stage.agent.hub, tenants, seconds, stage.nvml)
        meter.start()
        begun = time.monotonic()
        # Neighbours work for as long as the launch takes beside them, about.
        for neighbour in neighbours:
            neighbour.tell(f"run {len(tenants) * float(case.command[-1]) / 1e6 + SETTLE_SECONDS}")
        one.tell("run 1")
        looks: list[Look] = []
        _look_until_answered(one, meter, begun, looks)
        answer = one.hear()
        ended = time.monotonic() - begun
        others = [neighbour.hear() for neighbour in neighbours]
        while time.monotonic() - begun < ended + LATE_SECONDS:
            looks.append((time.monotonic() - begun, meter.stop()))
            time.sleep(LOOK_SECONDS)
        after = _alone(tenants)
        before = before or _alone(tenants)
        wrongly_flagged = stage.flagged(tenants)

    truths = [truth.Alone(early, late) for early, late in zip(before, after, strict=True)]
    known = truths[0].known_seconds(answer[0])
    # Beside others it has the GPU as evenly over its time as they do.
    half_way = said_at(looks, ended / 2)
    beside = {place: truths[place].known_seconds(other[0]) for place, other in enumerate(others, 1)}
    shared = {
        "alone_us": round(truths[0].mean_ns / 1e3, 2),
        "alone_before_us": [round(alone.before_ns / 1e3, 2) for alone in truths],
        "alone_after_us": [round(alone.after_ns / 1e3, 2) for alone in truths],
        "wall_seconds": round(ended, 4),
        "truth_spread": round(max(alone.spread for alone in truths), 4),
        "wrongly_flagged": wrongly_flagged,
        "looks": [[round(when, 2), [round(figure, 4) for figure in figures]] for when, figures in looks[::5]],
        "neighbours_known_seconds": [round(seconds, 5) for seconds in beside.values()],
        "others_errors": {
            f"neighbour {place}": round(looks[-1][1][place] / seconds - 1, 4) for place, seconds in beside.items()
        },
    }
    late = told_after(looks, ended, known, case.target)
    half_way_name, after_name = case.row_names
    return [
        _row(case, half_way_name, known / 2, half_way, shared),
        _row(case, after_name, known, looks[-1][1][0], {**shared, "told_after_seconds": late}),
    ]


def _row(case: Case, name: str, known: float, metered: float, shared: dict[str, object]) -> dict[str, object]:
    error = metered / known - 1
    return {
        **case.as_row(),
        "case": name,
        "known_seconds": [round(known, 5)],
        "metered_seconds": [round(metered, 5)],
        "error": round(error, 4),
        "met": abs(error) <= case.target,
        **shared,
    }


def _alone(tenants: Sequence[Tenant]) -> list[float]:
    told = []
    for tenant in tenants:
        tenant.tell("solo")
        told += tenant.hear()
    return told


def _look_until_answered(one: Tenant, meter: Meter, begun: float, looks: list[Look]) -> None:
    stdout = one.process.stdout
    assert stdout is not None
    while not select.select([stdout], [], [], LOOK_SECONDS)[0]:
        looks.append((time.monotonic() - begun, meter.stop()))
        if time.monotonic() - begun > ANSWER_SECONDS:
            raise WorkerError("the one launch does not end")
