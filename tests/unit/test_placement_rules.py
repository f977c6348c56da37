"""Where slices may go: never too much, never beside whom they must not meet, near together, tight or spread."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import NoCapacityError
from jupyter_vgpu.model import Profile
from jupyter_vgpu.placement import Room, best_fit
from jupyter_vgpu.units import GIB, PPM

TOTAL = 80 * GIB
PROFILES = parse_profiles(
    {
        "1/8": {"share": "1/8"},
        "1/4": {"share": "1/4"},
        "1/3": {"share": "1/3"},
        "10GiB": {"memory": "10GiB"},
        "two halves": {"share": "1/2", "devices": 2},
        "whole": {"backend": "whole"},
    }
)
wishes = st.lists(st.tuples(st.sampled_from(PROFILES), st.sampled_from(["", "exam", "staff"])), max_size=40)


def empty(number: int) -> Room:
    return Room(f"GPU-{number}", "A100", TOTAL, TOTAL, PPM)


def profile(**entry: object) -> Profile:
    (one,) = parse_profiles({"it": entry})
    return one


def taken(room: Room, memory_bytes: int, share_ppm: int, isolation: str = "") -> Room:
    return replace(
        room,
        free_bytes=room.free_bytes - memory_bytes,
        free_share_ppm=room.free_share_ppm - share_ppm,
        isolation=room.isolation | {isolation},
    )


def fill(wishes: list[tuple[Profile, str]], spread: bool, drained: int) -> dict[str, Room]:
    """Place one wish after the other, as far as they fit."""
    rooms = {f"GPU-{n}": replace(empty(n), is_usable=n != drained) for n in range(4)}
    for wish, isolation in wishes:
        try:
            grants = best_fit(list(rooms.values()), wish, isolation, spread)
        except NoCapacityError:
            continue
        assert len({grant.uuid for grant in grants}) == wish.devices
        for grant in grants:
            rooms[grant.uuid] = taken(rooms[grant.uuid], grant.memory_bytes, grant.share_ppm, isolation)
    return rooms


@settings(max_examples=60)
@given(wishes, st.booleans(), st.integers(0, 4))
def test_nothing_is_promised_twice_nor_on_a_drained_device_nor_beside_another_group(
    wishes: list[tuple[Profile, str]], spread: bool, drained: int
) -> None:
    rooms = fill(wishes, spread, drained)

    assert all(room.free_bytes >= 0 and room.free_share_ppm >= 0 for room in rooms.values())
    assert all(len(room.isolation) <= 1 for room in rooms.values())
    assert all(room.is_empty for room in rooms.values() if not room.is_usable)


@settings(max_examples=60)
@given(wishes, st.randoms())
def test_the_answer_does_not_depend_on_the_order_of_devices(wishes: list[tuple[Profile, str]], random: object) -> None:
    rooms = list(fill(wishes, False, 4).values())
    shuffled = list(rooms)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def answer(rooms: list[Room]) -> object:
        try:
            return best_fit(rooms, PROFILES[1], "")
        except NoCapacityError:
            return None

    assert answer(shuffled) == answer(rooms)


def test_tight_keeps_whole_devices_whole_and_spread_keeps_company_small() -> None:
    rooms = [empty(0), taken(empty(1), 20 * GIB, 250_000)]

    assert best_fit(rooms, profile(share="1/4"))[0].uuid == "GPU-1"
    assert best_fit(rooms, profile(share="1/4"), spread=True)[0].uuid == "GPU-0"


def test_an_exam_shares_its_devices_with_nobody_else() -> None:
    rooms = [taken(empty(0), 20 * GIB, 250_000, ""), taken(empty(1), 20 * GIB, 250_000, "exam")]

    assert best_fit(rooms, profile(share="1/4"), "exam")[0].uuid == "GPU-1"
    assert best_fit(rooms, profile(share="1/4"), "")[0].uuid == "GPU-0"
    with pytest.raises(NoCapacityError):
        best_fit(rooms, profile(share="1/4"), "staff")


def test_several_devices_are_taken_where_they_are_nearest_together() -> None:
    rooms = [empty(n) for n in range(4)]
    far = {(f"GPU-{a}", f"GPU-{b}"): 10 for a in range(4) for b in range(a)} | {("GPU-1", "GPU-3"): 1}
    far.pop(("GPU-3", "GPU-1"))

    grants = best_fit(rooms, profile(share="1/2", devices=2), distances=far)

    assert [grant.uuid for grant in grants] == ["GPU-1", "GPU-3"]
