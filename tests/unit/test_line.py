"""Who is next when several wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vgpu.hub.line import Waiting, estimated_seconds, group_of, in_order, next_in

people = st.lists(
    st.builds(
        Waiting,
        key=st.tuples(st.text("abcdef", min_size=1, max_size=6), st.just("")),
        group=st.sampled_from(["", "a", "b", "c"]),
        share=st.sampled_from([0.125, 0.25, 0.5, 1.0]),
        priority=st.integers(0, 2),
        arrived_at=st.floats(0, 1e6),
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


def test_groups_take_turns_by_their_weights() -> None:
    waiting = [person("a", n, "a") for n in range(6)] + [person("b", n + 0.5, "b") for n in range(3)]

    order = names(in_order(waiting, {}, {"a": 2.0, "b": 1.0}))

    assert [order[:length].count("a") for length in (3, 6, 9)] == [2, 4, 6]


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
