"""Who is next when several wait for a slice, and how long it may take.

No clock, no agent. The order is: higher priority first; then the group that holds least for its weight; within a group
who came first. What a group is given counts as held, so that groups take turns by their weights.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
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
        arrived_at: Since when, in seconds of any clock.
        number: Its number in the order of arrival, which no clock that is put back can change; of two with the same,
            who arrived first is first.
        kind: What it asks for: of two alike either both fit or neither does.
    """

    key: tuple[str, str]
    group: str
    share: float
    priority: int
    arrived_at: float
    number: int = 0
    kind: Hashable = ""


_Turn = tuple[int, float, tuple[str, str]]
_NOBODY: _Turn = (0, 0.0, ("", ""))


def _turn(one: Waiting) -> _Turn:
    return one.number, one.arrived_at, one.key


def group_of(groups: Iterable[str], weights: Mapping[str, float]) -> str:
    """Return which of a user's groups a wait counts for: the heaviest that has a weight, else none (`""`)."""
    weighted = [group for group in groups if group in weights]
    return max(weighted, key=lambda group: (weights[group], group), default="")


class Line:
    """Those who wait. Kept by priority, group, kind and arrival, so that to find who is next nobody has to be sorted.

    What that takes grows with the groups and the kinds of what is asked for, not with how many wait.
    """

    def __init__(self, waiting: Iterable[Waiting] = (), weights: Mapping[str, float] | None = None) -> None:
        """Let `waiting` wait.

        Args:
            waiting: Who waits, in any order.
            weights: Weight of each group, > 0; 1 for whoever is not named.
        """
        self._weights = dict(weights or {})
        self._waiting: dict[tuple[str, str], Waiting] = {}
        self._classes: dict[int, dict[str, dict[Hashable, list[Waiting]]]] = {}
        for one in waiting:
            self.add(one)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def kinds(self) -> set[Hashable]:
        """What is asked for."""
        return {kind for groups in self._classes.values() for members in groups.values() for kind in members}

    def add(self, one: Waiting) -> None:
        """Let one wait; whoever waited by the same key is gone."""
        self.remove(one.key)
        self._waiting[one.key] = one
        members = self._classes.setdefault(one.priority, {}).setdefault(one.group, {})
        insort(members.setdefault(one.kind, []), one, key=_turn)

    def remove(self, key: tuple[str, str]) -> None:
        """Let one wait no more, if it did."""
        one = self._waiting.pop(key, None)
        if one is None:
            return
        groups = self._classes[one.priority]
        members = groups[one.group]
        alike = members[one.kind]
        del alike[bisect_left(alike, _turn(one), key=_turn)]
        if not alike:
            del members[one.kind]
        if not members:
            del groups[one.group]
        if not groups:
            del self._classes[one.priority]

    def heads(
        self, held: Mapping[str, float] | None = None, without: Collection[tuple[str, str]] = ()
    ) -> Iterator[Waiting]:
        """Give those of whom one is next, in the order in which they are: of those alike in a group, the first only.

        Args:
            held: What each group holds now, in devices.
            without: Keys of some who have been chosen already, few.
        """
        for priority in sorted(self._classes, reverse=True):
            groups = []
            for group, members in self._classes[priority].items():
                left = (next((one for one in alike if one.key not in without), None) for alike in members.values())
                first = sorted((one for one in left if one is not None), key=_turn)
                if first:
                    groups.append((self._weighed(held or {}, group), _turn(first[0]), first))
            for _, _, first in sorted(groups, key=lambda entry: entry[:2]):
                yield from first

    def in_order(self, held: Mapping[str, float] | None = None) -> Iterator[Waiting]:
        """Give all who wait in the order in which they are served if each fits when its turn comes.

        Args:
            held: What each group holds now, in devices.
        """
        given = dict(held or {})
        for priority in sorted(self._classes, reverse=True):
            groups = {
                group: heapq.merge(*members.values(), key=_turn) for group, members in self._classes[priority].items()
            }
            turns = [self._next_turn(given, group, members) for group, members in groups.items()]
            heapq.heapify(turns)
            while turns:
                _, _, group, one = turns[0]
                if one is None:
                    heapq.heappop(turns)
                    continue
                yield one
                given[group] = given.get(group, 0.0) + one.share
                heapq.heapreplace(turns, self._next_turn(given, group, groups[group]))

    def _next_turn(
        self, given: Mapping[str, float], group: str, members: Iterator[Waiting]
    ) -> tuple[float, _Turn, str, Waiting | None]:
        one = next(members, None)
        if one is None:
            return float("-inf"), _NOBODY, group, None  # is popped at once
        return self._weighed(given, group), _turn(one), group, one

    def _weighed(self, given: Mapping[str, float], group: str) -> float:
        return given.get(group, 0.0) / self._weights.get(group, 1.0)


def in_order(
    waiting: Iterable[Waiting], held: Mapping[str, float] | None = None, weights: Mapping[str, float] | None = None
) -> list[Waiting]:
    """Return those who wait in the order in which they are served; arguments as for `Line` and `Line.in_order`."""
    return list(Line(waiting, weights).in_order(held))


def next_in(
    order: Iterable[Waiting],
    fits: Callable[[Waiting], bool],
    now: float,
    patience_seconds: float,
    leaves_room: Callable[[Waiting, Waiting], bool] = lambda one, kept_for: False,
) -> Waiting | None:
    """Return who is served next: the first, or one behind that fits where the first does not; `None` when nobody is.

    Nobody is overtaken for ever: for the first who has waited `patience_seconds` and does not fit, room is kept until
    they do. Those behind are served meanwhile if that takes nothing from the room that is kept: a lab does not stand
    still because one waits for a whole device.

    Args:
        order: As `Line.heads` gives it.
        fits: Whether one could have its slice now.
        now: The time, by the clock of `arrived_at`.
        patience_seconds: Longest time that others may overtake.
        leaves_room: Whether the first could have its slice and leave the second what is kept for it.
    """
    kept_for: Waiting | None = None
    for one in order:
        if fits(one) and (kept_for is None or leaves_room(one, kept_for)):
            return one
        if kept_for is None and now - one.arrived_at >= patience_seconds:
            kept_for = one
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
