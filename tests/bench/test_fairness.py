"""Weighted max-min fairness: the split that nobody can be given more of without taking from who has less."""

from __future__ import annotations

from random import Random

import pytest
from governor.fairness import entitlements, largest_difference, parts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CLOSE = 1e-9
tenants = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 2)), min_size=1, max_size=8)
capacities = st.floats(0, 2)
# This machine may be busy: how long an example takes says nothing.
unhurried = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


@unhurried
@given(tenants, capacities)
def test_nobody_gets_more_than_it_wants_and_nothing_is_left_that_someone_wants(
    who: list[tuple[float, float]], capacity: float
) -> None:
    weights, wants = zip(*who, strict=True)

    given_to = entitlements(weights, wants, capacity)

    assert all(0 <= had <= want + CLOSE for had, want in zip(given_to, wants, strict=True))
    assert sum(given_to) == pytest.approx(min(capacity, sum(wants)))


@unhurried
@given(tenants, capacities)
def test_who_wants_more_has_as_much_for_its_weight_as_anyone(who: list[tuple[float, float]], capacity: float) -> None:
    weights, wants = zip(*who, strict=True)

    given_to = entitlements(weights, wants, capacity)

    levels = [had / weight for had, weight in zip(given_to, weights, strict=True)]
    for had, want, level in zip(given_to, wants, levels, strict=True):
        if had < want - CLOSE:
            assert level >= max(levels) - 1e-6


@unhurried
@given(tenants, capacities, st.randoms(use_true_random=False), st.floats(0.1, 10))
def test_neither_the_order_nor_the_unit_of_the_weights_matters(
    who: list[tuple[float, float]], capacity: float, chance: Random, factor: float
) -> None:
    weights, wants = zip(*who, strict=True)
    order = list(range(len(who)))
    chance.shuffle(order)

    shuffled = entitlements([weights[i] * factor for i in order], [wants[i] for i in order], capacity)

    straight = entitlements(weights, wants, capacity)
    assert shuffled == pytest.approx([straight[i] for i in order], abs=1e-9)


@pytest.mark.parametrize(
    ("weights", "wants", "due"),
    [
        pytest.param([3, 1], [1, 1], [0.75, 0.25], id="by weight where all want all"),
        pytest.param([1, 1, 1], [1, 0.6, 0.2], [0.4, 0.4, 0.2], id="what one leaves goes to the others"),
        pytest.param(
            [5, 1, 1, 1], [0.6, 1, 1, 1], [0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3], id="who has much weight may be full"
        ),
        pytest.param([1, 1], [0.3, 0.3], [0.3, 0.3], id="all get what they want where there is enough"),
        pytest.param([1, 1], [0, 1], [0, 1], id="who wants nothing gets nothing"),
    ],
)
def test_a_known_split(weights: list[float], wants: list[float], due: list[float]) -> None:
    assert entitlements(weights, wants) == pytest.approx(due)


@pytest.mark.parametrize(
    ("weights", "wants", "capacity"),
    [
        pytest.param([0, 1], [1, 1], 1, id="no weight"),
        pytest.param([1, 1], [-0.1, 1], 1, id="a want below nothing"),
        pytest.param([1], [1, 1], 1, id="a weight too few"),
        pytest.param([1], [1], -1, id="less than nothing to split"),
    ],
)
def test_what_is_no_question_is_refused(weights: list[float], wants: list[float], capacity: float) -> None:
    with pytest.raises(ValueError, match="are needed"):
        entitlements(weights, wants, capacity)


def test_parts_are_of_the_sum_and_nothing_has_no_parts() -> None:
    assert parts([3, 1]) == [0.75, 0.25]
    assert parts([0, 0]) == [0, 0]
    assert largest_difference([0.5, 0.2], [0.4, 0.25]) == pytest.approx(0.1)
