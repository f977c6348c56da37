"""What each tenant is entitled to: weighted max-min fairness. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def entitlements(weights: Sequence[float], wants: Sequence[float], capacity: float = 1.0) -> list[float]:
    """Split one device by weighted max-min fairness.

    Args:
        weights: Promised shares; shape (tenants,), each > 0.
        wants: Fraction each would use if it never had to wait; shape (tenants,), each >= 0, same order.
        capacity: Fraction of the device there is to split, >= 0.

    Returns:
        Fraction of GPU time each is entitled to; shape (tenants,), sum = the smaller of capacity and all wants.
        Nobody gets more than it wants; what one leaves goes to the others by weight.

    Raises:
        ValueError: A weight is not above 0, a want or the capacity is below 0, or the lengths differ.

    Source: water-filling, Bertsekas & Gallager, Data Networks (1992), 6.5.2.
    """
    if len(weights) != len(wants) or min(weights, default=1) <= 0 or min([capacity, *wants]) < 0:
        raise ValueError(f"weights {weights} above 0, wants {wants} and capacity {capacity} of at least 0 are needed")
    # The water rises; whoever wants least for its weight is full first.
    order = sorted(range(len(wants)), key=lambda i: wants[i] / weights[i])
    given = [0.0] * len(wants)
    left, weight_left = capacity, float(sum(weights))
    for i in order:
        given[i] = min(wants[i], left * weights[i] / weight_left)
        left -= given[i]
        weight_left -= weights[i]
    return given


def largest_difference(had: Sequence[float], due: Sequence[float]) -> float:
    """Return the largest distance between what a tenant had and what it was due, of all of them, >= 0."""
    return max(abs(one - other) for one, other in zip(had, due, strict=True))


def parts(figures: Sequence[float]) -> list[float]:
    """Return each figure as a part of their sum, 0..1; all 0 when the sum is."""
    total = sum(figures)
    return [figure / total if total else 0.0 for figure in figures]
