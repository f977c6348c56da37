"""Who is next when several wait for a slice, and how long it may take.

Pure functions. The order is: higher priority first; then the group that holds least for its weight; within a group
who came first. What a group is given counts as held, so that groups take turns by their weights.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_FEWEST_RELEASES = 3


@dataclass(frozen=True)
class Waiting:
    """One server that waits.

    Attributes:
        key: Who; any name that is nobody else's.
        group: The group it counts for; empty = none.
        share: What it wants, in devices, > 0.
        priority: Higher goes first.
        arrived_at: Since when, Unix seconds.
    """

    key: tuple[str, str]
    group: str
    share: float
    priority: int
    arrived_at: float


def group_of(groups: Iterable[str], weights: Mapping[str, float]) -> str:
    """Return which of a user's groups a wait counts for: the heaviest that has a weight, else none (`""`)."""
    weighted = [group for group in groups if group in weights]
    return max(weighted, key=lambda group: (weights[group], group), default="")


def in_order(
    waiting: Iterable[Waiting], held: Mapping[str, float] | None = None, weights: Mapping[str, float] | None = None
) -> list[Waiting]:
    """Return those who wait in the order in which they are served.

    Args:
        waiting: Who waits, in any order.
        held: What each group holds now, in devices.
        weights: Weight of each group, > 0; 1 for whoever is not named.
    """
    held, weights = held or {}, weights or {}
    by_class: dict[int, dict[str, list[Waiting]]] = {}
    for one in waiting:
        by_class.setdefault(one.priority, {}).setdefault(one.group, []).append(one)
    given = dict(held)
    result: list[Waiting] = []
    for priority in sorted(by_class, reverse=True):
        groups = by_class[priority]
        for members in groups.values():
            members.sort(key=lambda one: (one.arrived_at, one.key), reverse=True)  # the first is popped first

        def turn(group: str, groups: dict[str, list[Waiting]] = groups) -> tuple[float, float, str]:
            return given.get(group, 0.0) / weights.get(group, 1.0), groups[group][-1].arrived_at, group

        turns = [turn(group) for group in groups]
        heapq.heapify(turns)
        while turns:
            group = heapq.heappop(turns)[-1]
            one = groups[group].pop()
            given[group] = given.get(group, 0.0) + one.share
            result.append(one)
            if groups[group]:
                heapq.heappush(turns, turn(group))
    return result


def next_in(
    order: Sequence[Waiting], fits: Callable[[Waiting], bool], now: float, patience_seconds: float
) -> Waiting | None:
    """Return who is served next: the first, or one behind that fits where the first does not; `None` when nobody is.

    Nobody is overtaken for ever: whoever has waited `patience_seconds` and does not fit holds up all behind, so that
    what becomes free is kept for them.

    Args:
        order: As `in_order` gives it.
        fits: Whether one could have its slice now.
        now: The time, Unix seconds.
        patience_seconds: Longest time that others may overtake.
    """
    for one in order:
        if fits(one):
            return one
        if now - one.arrived_at >= patience_seconds:
            return None
    return None


def estimated_seconds(position: int, ends: Sequence[float], now: float, window_seconds: float = 7200.0) -> float | None:
    """Return about how long the one at `position` will wait; `None` when too little is known.

    As often as slices came free within the window, they are taken to come free from now on.

    Args:
        position: 1 = next.
        ends: When slices were given back, Unix seconds, any order.
        now: The time.
        window_seconds: How far back counts.
    """
    recent = [end for end in ends if now - window_seconds <= end <= now]
    if len(recent) < _FEWEST_RELEASES:
        return None
    return position * max(now - min(recent), 1.0) / len(recent)
