"""Where a slice goes, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError, NoCapacityError
from jupyter_vgpu.model import Device, Grant, Memory, Profile
from jupyter_vgpu.placement import Room, best_fit, largest_room, rooms

GIB = 1 << 30


def profile(**entry: object) -> Profile:
    return parse_profiles({"p": entry})[0]


def room(uuid: str, free_gib: int = 80, free_ppm: int = 1_000_000, total_gib: int = 80) -> Room:
    return Room(uuid, f"board {uuid}", total_gib * GIB, free_gib * GIB, free_ppm)


QUARTER = profile(share="1/4")


def test_the_fullest_device_that_still_holds_it_is_chosen() -> None:
    (grant,) = best_fit([room("a"), room("b", 40, 500_000), room("c", 10, 125_000)], QUARTER)

    assert grant == Grant("b", 20 * GIB, 250_000, 1_000_000)


def test_breaks_ties_by_uuid_not_by_order() -> None:
    (grant,) = best_fit([room("c"), room("a"), room("b")], QUARTER)

    assert grant.uuid == "a"


def test_a_slice_needs_memory_and_share_on_the_same_device() -> None:
    """Memory free on one device and time free on another hold no slice."""
    with pytest.raises(NoCapacityError):
        best_fit([room("a", 80, 100_000), room("b", 10, 1_000_000)], QUARTER)


def test_several_devices_are_different_ones() -> None:
    grants = best_fit([room("a"), room("b"), room("c", 60, 750_000)], profile(share="1/4", devices=2))

    assert [grant.uuid for grant in grants] == ["c", "a"]


def test_a_fraction_is_taken_of_each_device_itself() -> None:
    grants = best_fit([room("a", 40, total_gib=40), room("b")], profile(share="1/4", devices=2))

    assert {grant.uuid: grant.memory_bytes for grant in grants} == {"a": 10 * GIB, "b": 20 * GIB}


def test_a_whole_device_is_one_that_nobody_has_a_part_of() -> None:
    whole = profile(backend="whole")

    (grant,) = best_fit([room("a", 80, 999_999), room("b")], whole)

    assert grant == Grant("b", 80 * GIB, 1_000_000, 1_000_000)
    with pytest.raises(NoCapacityError):
        best_fit([room("a", 80, 999_999)], whole)


def test_four_quarters_fill_a_device_and_the_fifth_is_refused() -> None:
    device = Device("GPU-1", "board", 0, 80 * GIB, 108, "8.0", True, "580")
    grants: list[Grant] = []
    for _ in range(4):
        grants += best_fit(rooms([device], grants), QUARTER)

    with pytest.raises(NoCapacityError, match="no part of any device is free"):
        best_fit(rooms([device], grants), QUARTER)


def test_three_thirds_fit() -> None:
    device = Device("GPU-1", "board", 0, 80 * GIB, 108, "8.0", True, "580")
    grants: list[Grant] = []
    for _ in range(3):
        grants += best_fit(rooms([device], grants), profile(share="1/3"))

    assert sum(grant.memory_bytes for grant in grants) <= device.total_bytes


def test_a_refusal_names_what_was_asked_and_the_largest_slice_that_would_fit() -> None:
    with pytest.raises(NoCapacityError) as refusal:
        best_fit([room("a", 5, 62_500), room("b", 10, 125_000)], QUARTER)

    assert str(refusal.value) == (
        "'p' does not fit (20.0 GiB and 1/4 of the time of one device): the largest free slice is 10.0 GiB with "
        "1/8 of the time, on b (board b); 0 of 2 devices are wholly free"
    )


def test_what_the_largest_slice_says_does_fit() -> None:
    largest = largest_room([room("a", 5, 900_000), room("b", 10, 125_000)])

    assert largest is not None
    assert best_fit([largest], replace(QUARTER, share_ppm=125_000, memory=Memory(fraction=Fraction(1, 8))))


def test_more_than_a_device_has_is_refused_not_cut() -> None:
    with pytest.raises(NoCapacityError, match=r"100\.0 GiB"):
        best_fit([room("a")], profile(memory="100GiB", share="1/4"))


def test_a_ceiling_below_a_share_by_memory_is_refused() -> None:
    with pytest.raises(BadValueError, match="share of 1/2"):
        best_fit([room("a")], profile(memory="40GiB", ceiling="1/4"))


def test_no_devices_at_all_is_no_capacity() -> None:
    with pytest.raises(NoCapacityError, match="no part of any device is free"):
        best_fit([], QUARTER)


def test_a_device_that_shrank_under_its_claims_takes_no_more() -> None:
    with pytest.raises(NoCapacityError):
        best_fit([room("a", -5, 500_000)], QUARTER)
