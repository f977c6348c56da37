"""Guarantees: what a profile may say, what it means on a device, and that no device is guaranteed twice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vgpu.client import profile_to_wire
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError, NoCapacityError
from jupyter_vgpu.model import Profile
from jupyter_vgpu.placement import Room, best_fit
from jupyter_vgpu.units import GIB, PPM, to_ppm

TOTAL = 80 * GIB

parts = st.fractions(Fraction(1, 64), 1, max_denominator=64)


def one(**entry: Any) -> Profile:
    (profile,) = parse_profiles({"it": entry})
    return profile


def empty(number: int) -> Room:
    return Room(f"GPU-{number}", "A100", TOTAL, TOTAL, PPM)


def test_nothing_is_guaranteed_unless_said() -> None:
    assert one(share="1/4").guarantee_ppm == 0
    assert best_fit([empty(0)], one(share="1/4"))[0].guarantee_ppm == 0


def test_what_is_guaranteed_is_granted_on_each_device() -> None:
    grants = best_fit([empty(0), empty(1)], one(share="1/2", guarantee="1/4", devices=2))

    assert [grant.guarantee_ppm for grant in grants] == [250_000, 250_000]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"share": "1/4", "guarantee": "1/2"},
            "profiles['it'].guarantee: '1/2' is not allowed; at most the share (1/4) is",
        ),
        ({"share": "1/4", "guarantee": 0}, "profiles['it'].guarantee: 0 is not allowed; a part of a device above 0"),
        ({"share": "1/4", "guarantee": "0,1"}, "profiles['it'].guarantee: '0,1' is not allowed; a part of a device"),
        ({"share": "1/4", "guarantee": True}, "profiles['it'].guarantee: True is not allowed; a part of a device"),
        ({"share": "1/4", "guarantee": "250"}, "profiles['it'].guarantee: '250' is not allowed; a part of a device"),
        ({"gpu": False, "guarantee": "1/4"}, "profiles['it'].guarantee: '1/4' is not allowed; none is where gpu is"),
        ({"cores": 25, "guarantee": "30%"}, "profiles['it'].guarantee: '30%' is not allowed; at most the share (1/4)"),
    ],
)
def test_a_guarantee_that_cannot_be_is_refused_by_name(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError) as refused:
        one(**entry)

    assert str(refused.value).startswith(message)


def test_a_guarantee_above_a_share_by_memory_is_refused_where_the_device_is_known() -> None:
    profile = one(memory="10GiB", guarantee="1/4")

    with pytest.raises(BadValueError, match=r"guarantee of profile 'it': '1/4' is not allowed; at most the share is"):
        best_fit([empty(0)], profile)
    assert best_fit([Room("GPU-0", "A100", 40 * GIB, 40 * GIB, PPM)], profile)[0].guarantee_ppm == 250_000


@given(parts, parts)
def test_a_guarantee_is_taken_up_to_the_share_and_not_beyond(share: Fraction, guarantee: Fraction) -> None:
    try:
        taken = one(share=str(share), guarantee=str(guarantee)).guarantee_ppm
    except BadValueError:
        taken = None

    assert taken == (to_ppm(guarantee) if guarantee <= share else None)


@given(parts, parts)
def test_a_guarantee_crosses_the_wire_as_it_is(share: Fraction, guarantee: Fraction) -> None:
    share, guarantee = max(share, guarantee), min(share, guarantee)
    profile = one(share=str(share), guarantee=str(guarantee))

    wire = profile_to_wire(profile)

    again = one(share=wire["share"], guarantee=wire["guarantee"])
    assert (again.share_ppm, again.guarantee_ppm) == (profile.share_ppm, profile.guarantee_ppm)


@settings(max_examples=60)
@given(st.lists(st.tuples(parts, parts, st.booleans()), max_size=40))
def test_what_is_guaranteed_of_a_device_is_never_more_than_the_whole(
    wishes: list[tuple[Fraction, Fraction, bool]],
) -> None:
    rooms = {room.uuid: room for room in (empty(0), empty(1))}
    guaranteed = dict.fromkeys(rooms, 0)

    for share, guarantee, by_memory in wishes:
        amount = {"memory": str(share)} if by_memory else {"share": str(share)}
        try:
            grants = best_fit(list(rooms.values()), one(**amount, guarantee=str(guarantee)))
        except (NoCapacityError, BadValueError):
            continue
        for grant in grants:
            room = rooms[grant.uuid]
            rooms[grant.uuid] = replace(
                room,
                free_bytes=room.free_bytes - grant.memory_bytes,
                free_share_ppm=room.free_share_ppm - grant.share_ppm,
            )
            guaranteed[grant.uuid] += grant.guarantee_ppm

    assert all(total <= PPM for total in guaranteed.values())
