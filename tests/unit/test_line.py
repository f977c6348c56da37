"""Who is next when several wait."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_vgpu.hub.keeping import kept_for, leaves
from jupyter_vgpu.hub.line import Line, Waiting, estimated_seconds, group_of, in_order, next_in
from jupyter_vgpu.model import Memory, Profile
from jupyter_vgpu.placement import Room, best_fit, fits
from jupyter_vgpu.units import GIB, PPM

people = st.lists(
    st.builds(
        Waiting,
        key=st.tuples(st.text("abcdef", min_size=1, max_size=6), st.just("")),
        group=st.sampled_from(["", "a", "b", "c"]),
        share=st.sampled_from([0.125, 0.25, 0.5, 1.0]),
        priority=st.integers(0, 2),
        arrived_at=st.floats(0, 1e6),
        kind=st.sampled_from(["small", "large"]),
    ),
    unique_by=lambda one: one.key,
    max_size=30,
)
weights = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats(0.1, 10))


def person(name: str, arrived_at: float = 0.0, group: str = "", share: float = 0.25, priority: int = 1) -> Waiting:
    return Waiting((name, ""), group, share, priority, arrived_at)


def names(order: list[Waiting]) -> str:
    return "".join(one.key[0] for one in order)


@given(people, weights)
def test_everyone_is_in_the_line_exactly_once(waiting: list[Waiting], weight: dict[str, float]) -> None:
    assert sorted(one.key for one in in_order(waiting, {}, weight)) == sorted(one.key for one in waiting)


@given(people, weights, st.randoms())
def test_the_order_does_not_depend_on_the_order_they_are_named_in(
    waiting: list[Waiting], weight: dict[str, float], random: object
) -> None:
    shuffled = list(waiting)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert in_order(shuffled, {}, weight) == in_order(waiting, {}, weight)


@given(people, weights)
def test_within_a_group_and_priority_who_came_first_is_first(waiting: list[Waiting], weight: dict[str, float]) -> None:
    order = in_order(waiting, {}, weight)

    for index, one in enumerate(order):
        for later in order[index + 1 :]:
            assert one.priority >= later.priority
            if (one.group, one.priority) == (later.group, later.priority):
                assert one.arrived_at <= later.arrived_at


@given(people, people)
def test_nobody_is_pushed_back_by_later_comers_of_their_own_group(early: list[Waiting], late: list[Waiting]) -> None:
    early = [Waiting(("e" + one.key[0], ""), "a", 0.25, 1, one.arrived_at) for one in early]
    late = [Waiting(("l" + one.key[0], ""), "a", 0.25, 1, one.arrived_at + 2e6) for one in late]

    assert in_order([*early, *late])[: len(early)] == in_order(early)


@given(people, st.sets(st.text("abcdef", min_size=1, max_size=6)), st.floats(0, 1e5))
def test_who_has_lost_patience_is_overtaken_by_nobody(waiting: list[Waiting], fit: set[str], patience: float) -> None:
    order = in_order(waiting)

    found = next_in(order, lambda one: one.key[0] in fit, 1e6, patience)

    if found is not None:
        assert found.key[0] in fit
        assert all(1e6 - one.arrived_at < patience for one in order[: order.index(found)])


@given(people, people, weights)
def test_who_left_the_line_has_left_no_trace_in_it(
    stay: list[Waiting], go: list[Waiting], weight: dict[str, float]
) -> None:
    leaving = [replace(one, key=("left " + one.key[0], "")) for one in go]
    line = Line([*stay, *leaving], weight)

    for one in leaving:
        line.remove(one.key)

    assert list(line.in_order()) == in_order(stay, {}, weight)
    assert len(line) == len(stay)


@given(people, weights, st.sets(st.sampled_from(["small", "large"])))
def test_among_those_alike_only_the_first_of_a_group_may_be_next(
    waiting: list[Waiting], weight: dict[str, float], fitting: set[str]
) -> None:
    line = Line(waiting, weight)

    found = next_in(line.heads(), lambda one: one.kind in fitting, 1e6, 2e6)

    able = [one for one in line.in_order() if one.kind in fitting]
    assert (found is None) == (not able)
    if found is not None:
        assert found.priority == max(one.priority for one in able)
        alike = [one for one in able if (one.group, one.priority) == (found.group, found.priority)]
        assert found == alike[0]
    assert line.kinds == {one.kind for one in waiting}


def test_among_ten_thousand_who_is_next_is_found_by_looking_at_the_first_of_each_kind_and_group() -> None:
    """It was found by sorting all of them, and asking each whether it fits."""
    waiting = [
        replace(person(f"p{n}", group=f"g{n % 5}"), number=n, kind="small" if n == 9_999 else f"large-{n % 3}")
        for n in range(10_000)
    ]
    asked: list[Waiting] = []

    def fits(one: Waiting) -> bool:
        asked.append(one)
        return one.kind == "small"

    found = next_in(Line(waiting).heads(), fits, 0.0, 1.0)

    assert found == waiting[-1]
    assert len(asked) <= 5 * 4


@given(people, people)
def test_a_clock_that_is_put_back_lets_nobody_overtake(early: list[Waiting], late: list[Waiting]) -> None:
    early = [Waiting(("e" + one.key[0], ""), "a", 0.25, 1, one.arrived_at + 2e6, number=1) for one in early]
    late = [Waiting(("l" + one.key[0], ""), "a", 0.25, 1, one.arrived_at, number=2) for one in late]

    assert in_order([*late, *early])[: len(early)] == in_order(early)


def test_groups_take_turns_by_their_weights() -> None:
    waiting = [person(f"a{n}", n, "a") for n in range(6)] + [person(f"b{n}", n + 0.5, "b") for n in range(3)]

    order = names(in_order(waiting, {}, {"a": 2.0, "b": 1.0}))

    assert [order[: 2 * length].count("a") for length in (3, 6, 9)] == [2, 4, 6]


def test_a_group_that_holds_less_goes_first() -> None:
    assert names(in_order([person("a", 1, "a"), person("b", 2, "b")], {"a": 1.0})) == "ba"


def test_a_higher_priority_goes_first_whenever_it_came() -> None:
    assert names(in_order([person("a", 1), person("b", 2, priority=2)])) == "ba"


def test_a_wait_counts_for_the_heaviest_group() -> None:
    assert group_of(["x", "a", "b"], {"a": 1.0, "b": 3.0}) == "b"
    assert group_of(["x"], {"a": 1.0}) == ""


def test_the_estimate_follows_how_often_slices_came_free() -> None:
    ends = [1000.0 - 60 * n for n in range(1, 11)]

    assert estimated_seconds(3, ends, 1000.0) == pytest.approx(180.0)
    assert estimated_seconds(3, ends[:2], 1000.0) is None


# What is kept for who has waited too long


def slice_of(part: str, devices: int = 1, backend: str = "auto") -> Profile:
    share = Fraction(part)
    return Profile(part, int(share * PPM), PPM, Memory(share, None), devices=devices, backend=backend)


PROFILES = [
    slice_of("1/8"),
    slice_of("1/4"),
    slice_of("1/2"),
    slice_of("1", backend="whole"),
    slice_of("1", 2, "whole"),
]


def board(eighths_free: list[int]) -> list[Room]:
    return [Room(f"GPU-{n}", "A100", 80 * GIB, free * 10 * GIB, free * PPM // 8) for n, free in enumerate(eighths_free)]


boards = st.lists(st.integers(0, 8), min_size=2, max_size=8).map(board)


@given(boards, st.sampled_from(PROFILES), st.sampled_from(PROFILES))
def test_what_is_served_beside_who_lost_patience_takes_nothing_from_what_is_kept(
    rooms: list[Room], waited_for: Profile, wished: Profile
) -> None:
    kept = kept_for(waited_for, rooms)

    assert len(kept) == waited_for.devices
    if leaves(wished, rooms, kept):
        assert kept.isdisjoint(grant.uuid for grant in best_fit(rooms, wished))


@given(boards, st.sampled_from(PROFILES), st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=30))
@example(board([2, 2]), slice_of("1", backend="whole"), [(True, 0), (False, 0)] * 9)
def test_who_lost_patience_comes_nearer_to_their_slice_whoever_else_comes(
    rooms: list[Room], waited_for: Profile, happens: list[tuple[bool, int]]
) -> None:
    """The emptiest devices, as many as are waited for, are made fuller by nobody, and emptier by whoever leaves."""
    wished = PROFILES[0]
    for somebody_leaves, number in happens:
        if somebody_leaves:
            index = number % len(rooms)
            free = min(8, rooms[index].free_share_ppm * 8 // PPM + 1)
            rooms[index] = board([0] * index + [free])[index]
        kept = kept_for(waited_for, rooms)
        emptiest = sorted((room.free_share_ppm for room in rooms), reverse=True)[: waited_for.devices]
        while leaves(wished, rooms, kept):
            (grant,) = best_fit(rooms, wished)
            index = int(grant.uuid.removeprefix("GPU-"))
            rooms[index] = board([0] * index + [rooms[index].free_share_ppm * 8 // PPM - 1])[index]
        assert sorted((room.free_share_ppm for room in rooms), reverse=True)[: waited_for.devices] == emptiest


def test_one_who_waits_for_a_whole_device_does_not_hold_up_a_lab() -> None:
    """Once, all who wanted a quarter stood behind the first who had waited five minutes for a whole device."""
    rooms = board([6, 2, 2, 2])  # nobody leaves: a device would never be whole
    whole, quarter = slice_of("1", backend="whole"), slice_of("1/4")
    profiles = {"w": whole, "q": quarter, "r": quarter}
    order = [person("w", 0.0), person("q", 400.0), person("r", 401.0)]

    def found(rooms: list[Room]) -> Waiting | None:
        return next_in(
            order,
            lambda one: any(fits(room, profiles[one.key[0]]) for room in rooms),
            500.0,
            300.0,
            lambda one, first: leaves(profiles[one.key[0]], rooms, kept_for(profiles[first.key[0]], rooms)),
        )

    assert found(rooms) == order[1]
    assert found(board([6, 0, 0, 0])) is None  # the room that is left is kept
    assert found(board([8, 0, 0, 0])) == order[0]


def test_devices_that_take_no_new_claims_or_are_too_small_are_not_kept() -> None:
    rooms = [replace(room, is_usable=room.uuid != "GPU-0") for room in board([8, 1, 2])]

    assert kept_for(slice_of("1", backend="whole"), rooms) == {"GPU-2"}
    assert kept_for(slice_of("1", 3, "whole"), rooms) == frozenset()
