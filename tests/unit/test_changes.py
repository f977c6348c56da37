"""Who waits for a change goes on when there is one, or when the time is over, and is then forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from jupyter_vgpu.agent.changes import Changes

LONG_SECONDS = 600.0


class Marks:
    """A mark that changes at each look from the second on, and counts how often it was asked for."""

    def __init__(self, *marks: str) -> None:
        self.asked = 0
        self._marks: Iterator[str] = iter(marks)

    def __call__(self) -> str:
        self.asked += 1
        return next(self._marks)


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_what_is_another_already_is_not_waited_for() -> None:
    async def wait() -> int:
        changes = Changes()
        await changes.wait("slice", Marks("new"), "old", LONG_SECONDS)
        return changes.waiting

    assert asyncio.run(wait()) == 0


def test_no_time_is_no_wait() -> None:
    async def wait() -> int:
        changes = Changes()
        await changes.wait("slice", Marks("old"), "old", 0.0)
        return changes.waiting

    assert asyncio.run(wait()) == 0


def test_all_who_wait_for_the_same_go_on_after_one_look() -> None:
    async def wait() -> tuple[int, list[bool], int]:
        changes, marks = Changes(), Marks("old", "old", "new")
        futures = [changes.wait("slice", marks, "old", LONG_SECONDS) for _ in range(2)]
        other = changes.wait("another slice", Marks("old", "old"), "old", LONG_SECONDS)
        changes.look(100.0)
        await settled()
        is_over = [future.done() for future in (*futures, other)]
        waiting = changes.waiting
        other.cancel()
        await settled()
        assert changes.waiting == 0
        return marks.asked, is_over, waiting

    assert asyncio.run(wait()) == (3, [True, True, False], 1)


@pytest.mark.parametrize(
    ("is_at_rest", "looks"), [(False, 7), (True, 1)], ids=["every half second", "once where nobody does anything"]
)
def test_looks_are_made_now_and_then(is_at_rest: bool, looks: int) -> None:
    async def wait() -> int:
        changes, marks = Changes(), Marks(*["old"] * 20)
        future = changes.wait("slice", marks, "old", LONG_SECONDS)
        for quarter in range(13):
            changes.look(100.0 + quarter / 4, is_at_rest)
        future.cancel()
        await settled()
        return marks.asked - 1  # before the wait

    assert asyncio.run(wait()) == looks


def test_the_last_change_before_rest_is_seen() -> None:
    async def wait() -> bool:
        changes, marks = Changes(), Marks("old", "old", "new")
        future = changes.wait("slice", marks, "old", LONG_SECONDS)
        changes.look(100.0)
        changes.look(100.25, is_at_rest=True)  # too early to look again
        changes.look(100.75, is_at_rest=True)
        return future.done()

    assert asyncio.run(wait())


def test_it_is_looked_again_when_somebody_does_something() -> None:
    async def wait() -> bool:
        changes, marks = Changes(), Marks("old", "old", "new")
        future = changes.wait("slice", marks, "old", LONG_SECONDS)
        changes.look(100.0, is_at_rest=True)
        changes.look(101.0, is_at_rest=True)
        changes.look(102.0)
        return future.done()

    assert asyncio.run(wait())


def test_the_wait_is_over_after_its_time() -> None:
    async def wait() -> int:
        changes = Changes()
        await changes.wait("slice", Marks("old"), "old", 0.01)
        await settled()
        return changes.waiting

    assert asyncio.run(wait()) == 0


def test_who_ends_the_wait_is_forgotten() -> None:
    async def wait() -> int:
        changes = Changes()
        future = changes.wait("slice", Marks("old"), "old", LONG_SECONDS)
        future.set_result(None)
        await settled()
        return changes.waiting

    assert asyncio.run(wait()) == 0
