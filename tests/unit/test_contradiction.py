"""A usage page against NVML: what cannot be true, and what honest programs do."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from jupyter_vgpu.agent.contradiction import LOOKS, PageWatch
from jupyter_vgpu.agent.overhead import Held

MIB, GIB = 1 << 20, 1 << 30
CONTEXT = 520 * MIB
TOTAL = 80 * GIB

# NVML's figure, the page's before and after, launches.
Look = tuple[int | None, int, int, int]


def still(used: int | None, held: int, launches: int = 0) -> Look:
    return used, held, held, launches


def answers(looks: Sequence[Look], written: int | None = None) -> list[str]:
    page = PageWatch()
    found = []
    for used, before, after, launches in looks:
        answer = page.look(used, Held(before, after), launches, after if written is None else written, TOTAL)
        if answer is not None:
            found.append(answer)
    return found


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        pytest.param(
            [still(4 * GIB + CONTEXT, 4 * GIB), still(4 * GIB + CONTEXT, 0), still(4 * GIB + CONTEXT, 0)],
            "gives up 4.0 GiB that the driver still holds",
            id="a page that is zeroed",
        ),
        pytest.param(
            [still(GIB + CONTEXT, GIB), still(GIB + CONTEXT, 0), still(GIB + CONTEXT, 0)],
            "gives up 1.0 GiB",
            id="a small one too",
        ),
        pytest.param([still(5 * GIB, 0)] * 2, "does not account for", id="a page that was always empty"),
        pytest.param(
            [still(CONTEXT, 0, 900), still(CONTEXT, 0, 3)], "counted 900 launches and now 3", id="launches fall"
        ),
    ],
)
def test_what_cannot_be_is_said_once(looks: Sequence[Look], says: str) -> None:
    (answer,) = answers([*looks, *[looks[-1]] * 3 * LOOKS])

    assert says in answer


def test_more_memory_than_there_is_cannot_be() -> None:
    (answer,) = answers([still(CONTEXT, TOTAL)] * 4, written=2**63)

    assert "more memory than the device has" in answer


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([still(CONTEXT, 0), still(9 * GIB, 9 * GIB - CONTEXT), still(CONTEXT, 0)], id="allocate and free"),
        pytest.param(
            [still(8 * GIB + CONTEXT, 8 * GIB), (8 * GIB + CONTEXT, 0, 0, 0), still(CONTEXT, 0)],
            id="a page that is seen before the driver is asked",
        ),
        pytest.param(
            [still(4 * GIB + CONTEXT, 4 * GIB), still(CONTEXT + 900 * MIB, 0), still(CONTEXT + 900 * MIB, 0)],
            id="free, and load code meanwhile",
        ),
        pytest.param([still(CONTEXT, 3 * GIB)] * 5, id="managed memory that is not on the device"),
        pytest.param(
            [still(CONTEXT, 3 * GIB), *[still(CONTEXT, 0)] * 3 * LOOKS],
            id="such memory that is given back, or memory that came between NVML's look and the page's and went",
        ),
        pytest.param(
            [still(CONTEXT, 0), (3 * GIB + CONTEXT, 3 * GIB, 8 * GIB, 0), *[still(CONTEXT, 0)] * 3 * LOOKS],
            id="memory of which NVML saw a part",
        ),
        pytest.param([still(CONTEXT + GIB, 0)] * 5, id="a gigabyte of code"),
        pytest.param([still(5 * GIB, 0), still(5 * GIB, 4 * GIB)] * 5, id="a page that is a look behind"),
        pytest.param([still(None, 0, 5)] * 5, id="NVML says nothing"),
        pytest.param(
            [still(4 * GIB + CONTEXT, 0), still(4 * GIB + CONTEXT, 0), still(CONTEXT, 4 * GIB)] * 20,
            id="memory that comes and goes, seen at unlucky moments from the first look on",
        ),
        pytest.param(
            [still(4 * GIB + CONTEXT, 4 * GIB), *[still(4 * GIB + CONTEXT, 0)] * (LOOKS - 1)] * 20,
            id="the same, seen with nothing in its page at all looks of two seconds but one",
        ),
        pytest.param(
            [still(4 * GIB + CONTEXT, 0)] * (LOOKS - 1) + [(4 * GIB + CONTEXT, 0, 4 * GIB, 0)],
            id="one moment of them explains it",
        ),
        pytest.param(
            [*[still(4 * GIB + CONTEXT, 0)] * (LOOKS - 1), still(CONTEXT, 0)] * 20, id="a look at which NVML agrees"
        ),
    ],
)
def test_honest_programs_are_not_flagged(looks: Sequence[Look]) -> None:
    assert answers(looks) == []


def test_memory_that_alternates_is_not_flagged_however_it_is_seen() -> None:
    """A process that has 6 GiB or nothing; page and NVML are read at moments that have nothing to do with each other.

    Catches the false alarm of two unlucky looks in a row.
    """
    chance = random.Random(17)

    looks = [
        (CONTEXT + 6 * GIB * chance.randrange(2), 6 * GIB * chance.randrange(2), 6 * GIB * chance.randrange(2), 0)
        for _ in range(20_000)
    ]

    assert answers(looks) == []


def test_what_the_page_says_while_it_is_checked_counts_too() -> None:
    looks = [still(4 * GIB + CONTEXT, 0)] * 3 * LOOKS

    assert answers(looks, written=4 * GIB) == []
