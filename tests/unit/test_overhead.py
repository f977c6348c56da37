"""Overhead: NVML's figure against what was granted, while both move."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from jupyter_vgpu.agent.overhead import Held, Overhead

MIB = 1 << 20
GIB = 1 << 30
CONTEXT = 450 * MIB


def after(looks: Sequence[tuple[int | None, int, int]], pid: int = 7) -> int:
    """Return the overhead after looks of (NVML's figure, granted before, granted after)."""
    overhead = Overhead()
    for used, before, granted in looks:
        overhead.look({pid: used}, {pid: Held(before, granted)})
    return overhead.total_bytes


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([(CONTEXT, 0, 0)], 0, id="one look is not enough"),
        pytest.param([(CONTEXT, 0, 0)] * 2, CONTEXT, id="two of a process that holds still are"),
        pytest.param(
            [(CONTEXT, 0, 0)] * 2 + [(CONTEXT + 5 * GIB, 5 * GIB, 5 * GIB)] * 9, CONTEXT, id="allocations cancel out"
        ),
        pytest.param(
            [(CONTEXT, 0, 0)] * 2 + [(CONTEXT, 0, 8 * GIB)] + [(CONTEXT + 8 * GIB, 8 * GIB, 8 * GIB)],
            CONTEXT,
            id="an allocation after NVML's answer takes nothing away",
        ),
        pytest.param(
            [(CONTEXT, 0, 0)] * 2 + [(CONTEXT + 8 * GIB, 0, 0)] + [(CONTEXT + 8 * GIB, 8 * GIB, 8 * GIB)],
            CONTEXT,
            id="one that NVML saw first adds nothing",
        ),
        pytest.param(
            [(CONTEXT, 0, 0)] * 2 + [(CONTEXT + 200 * MIB, 0, 0)] * 2,
            CONTEXT + 200 * MIB,
            id="module code that is loaded later is added",
        ),
        pytest.param([(CONTEXT + 7 * GIB, 0, 0)] * 7, 0, id="more than code may take is not believed soon"),
        pytest.param([(CONTEXT + 7 * GIB, 0, 0)] * 8, CONTEXT + 7 * GIB, id="but after two seconds it is"),
        pytest.param(
            [(CONTEXT + GIB, 0, 0)] * 8 + [(CONTEXT, 0, 0)] * 7, CONTEXT + GIB, id="a figure does not fall soon"
        ),
        pytest.param([(CONTEXT + GIB, 0, 0)] * 8 + [(CONTEXT, 0, 0)] * 8, CONTEXT, id="but after two seconds it does"),
        pytest.param([(GIB, 3 * GIB, 3 * GIB)] * 9, 0, id="managed memory that is not on the device is no overhead"),
        pytest.param([(CONTEXT, 0, 0)] * 2 + [(None, 0, 0)] * 9, CONTEXT, id="no figure keeps the last"),
        pytest.param([(None, 0, 0)] * 9, 0, id="no figure ever is none"),
    ],
)
def test_overhead_is_what_looks_agree_on(looks: Sequence[tuple[int | None, int, int]], expected: int) -> None:
    assert after(looks) == expected


def test_one_that_allocates_and_frees_without_a_pause_keeps_its_figure() -> None:
    """Each look finds page and driver at another moment of a loop over 1, 4 and 0 GiB."""
    dice = random.Random(7)
    overhead = Overhead()
    for _ in range(2):
        overhead.look({7: CONTEXT}, {7: Held(0, 0)})

    figures = set()
    for _ in range(4000):
        before, at, granted = (dice.choice((0, GIB, 4 * GIB)) for _ in range(3))
        overhead.look({7: CONTEXT + at}, {7: Held(before, granted)})
        figures.add(overhead.total_bytes)

    assert figures == {CONTEXT}


def test_all_that_a_process_has_that_did_not_attach_counts_at_once() -> None:
    overhead = Overhead()

    overhead.look({7: 5 * GIB}, {}, strays=[7])

    assert overhead.total_bytes == 5 * GIB


def test_a_process_that_nvml_loses_for_a_moment_keeps_its_overhead() -> None:
    overhead = Overhead()
    for _ in range(2):
        overhead.look({7: CONTEXT}, {7: Held(0, 0)})

    figures = []
    for _ in range(4):
        overhead.look({}, {7: Held(0, 0)})
        figures.append(overhead.total_bytes)

    assert figures == [CONTEXT, CONTEXT, 0, 0]


def test_one_without_a_context_has_none() -> None:
    overhead = Overhead()
    overhead.look({8: CONTEXT}, {7: Held(0, 0)})

    assert overhead.total_bytes == 0


def test_a_dead_ones_overhead_is_gone_at_once() -> None:
    overhead = Overhead()
    for _ in range(2):
        overhead.look({7: CONTEXT, 8: CONTEXT}, {7: Held(0, 0), 8: Held(0, 0)})
    assert overhead.total_bytes == 2 * CONTEXT

    overhead.keep([8])

    assert (overhead.of(7), overhead.of(8), overhead.total_bytes) == (0, CONTEXT, CONTEXT)
