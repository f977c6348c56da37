"""Who is served by one look when several wait and there is room for some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from jupyter_vgpu.hub.keeping import kept_for, leaves
from jupyter_vgpu.hub.line import Line, Waiting, next_in
from jupyter_vgpu.hub.picking import Picking, Wish, as_left, can_be_placed
from jupyter_vgpu.model import Memory, Profile
from jupyter_vgpu.placement import Room, best_fit
from jupyter_vgpu.units import GIB, PPM

TOTAL_BYTES = 80 * GIB
NOW, PATIENCE_SECONDS = 1000.0, 300.0


def slice_of(part: str, devices: int = 1) -> Profile:
    fraction = Fraction(part)
    return Profile(f"{part} of {devices}", int(fraction * PPM), PPM, Memory(fraction, None), devices)


PROFILES = [slice_of("1/8"), slice_of("1/4"), slice_of("1/2"), slice_of("1"), slice_of("1/2", 2)]
wishes = st.tuples(st.sampled_from(PROFILES), st.sampled_from(["", "", "hub: exam"]))


@st.composite
def lines(draw: st.DrawFn) -> list[Waiting]:
    return [
        Waiting(
            key=(f"user-{number}", ""),
            group=draw(st.sampled_from(["", "a", "b"])),
            share=wish[0].share_ppm / PPM * wish[0].devices,
            priority=draw(st.integers(0, 2)),
            arrived_at=draw(st.floats(0, NOW)),
            number=number,
            kind=wish,
        )
        for number, wish in enumerate(draw(st.lists(wishes, max_size=20)))
    ]


def board(eighths_free: Sequence[int]) -> list[Room]:
    return [
        Room(f"GPU-{n}", "A100", TOTAL_BYTES, TOTAL_BYTES * free // 8, PPM * free // 8)
        for n, free in enumerate(eighths_free)
    ]


boards = st.lists(st.integers(0, 8), min_size=1, max_size=4).map(board)


def wish_of(one: Waiting) -> Wish:
    assert isinstance(one.kind, tuple)
    return one.kind


def placed(rooms: Sequence[Room], wish: Wish, is_spread: bool) -> list[Room]:
    """Return what is left when the agent has placed a slice: the oracle, which gives one at a time."""
    left = {room.uuid: room for room in rooms}
    for grant in best_fit(rooms, *wish, is_spread):
        room = left[grant.uuid]
        left[grant.uuid] = replace(
            room,
            free_bytes=room.free_bytes - grant.memory_bytes,
            free_share_ppm=room.free_share_ppm - grant.share_ppm,
            isolation=room.isolation | {wish[1]},
        )
    return list(left.values())


def next_of(line: Line, held: dict[str, float], rooms: list[Room], is_spread: bool) -> Waiting | None:
    """Return who is next by one look of their own."""

    def leaves_room(one: Waiting, first: Waiting) -> bool:
        kept = kept_for(wish_of(first)[0], rooms, wish_of(first)[1])
        return leaves(wish_of(one)[0], rooms, kept, wish_of(one)[1], is_spread)

    return next_in(
        line.heads(held),
        lambda one: can_be_placed(rooms, wish_of(one), is_spread),
        NOW,
        PATIENCE_SECONDS,
        leaves_room,
    )


@given(lines(), boards, st.booleans())
def test_one_look_serves_the_same_in_the_same_order_as_a_look_for_each(
    waiting: list[Waiting], rooms: list[Room], is_spread: bool
) -> None:
    weights = {"a": 2.0}

    found = Picking(Line(waiting, weights), wish_of, NOW, PATIENCE_SECONDS, is_spread).picks(rooms, {"b": 0.5})

    line, held, expected = Line(waiting, weights), {"b": 0.5}, []
    while (one := next_of(line, held, rooms, is_spread)) is not None:
        expected.append((one, rooms))
        line.remove(one.key)
        held[one.group] = held.get(one.group, 0.0) + one.share
        rooms = placed(rooms, wish_of(one), is_spread)
    assert [(one, sorted(left, key=lambda room: room.uuid)) for one, left in found] == [
        (one, sorted(left, key=lambda room: room.uuid)) for one, left in expected
    ]


@given(lines(), boards)
def test_what_is_given_by_one_look_never_exceeds_a_device(waiting: list[Waiting], rooms: list[Room]) -> None:
    for one, left in Picking(Line(waiting), wish_of, NOW, PATIENCE_SECONDS).picks(rooms, {}):
        assert can_be_placed(left, wish_of(one))
        assert all(room.free_bytes >= 0 and room.free_share_ppm >= 0 for room in left)


def test_no_more_are_served_by_one_look_than_the_rules_say_and_none_of_those_refused() -> None:
    quarter, half = (slice_of("1/4"), ""), (slice_of("1/2"), "")
    waiting = [
        Waiting(("h", ""), "", 0.5, 1, 0.0, 0, half),
        *(Waiting((f"q{n}", ""), "", 0.25, 1, 0.0, n, quarter) for n in range(1, 4)),
    ]

    found = Picking(Line(waiting), wish_of, NOW, 2000.0, refused={half}, most=2).picks(board([8]), {})

    assert [one.key[0] for one, _ in found] == ["q1", "q2"]


def test_the_agents_list_is_copied_with_what_those_before_leave() -> None:
    devices = [{"uuid": "GPU-0", "free_bytes": TOTAL_BYTES, "free_share": 1.0, "isolation": [], "total_bytes": 1}]
    (room,) = board([6])

    (seen,) = as_left(devices, [replace(room, isolation=frozenset({""}))])  # type: ignore[arg-type]

    assert (seen["free_bytes"], seen["free_share"], seen["isolation"]) == (TOTAL_BYTES * 6 // 8, 0.75, [""])
    assert devices[0]["free_share"] == 1.0
