"""From readings of counters to what was used in which hour. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

HOUR_SECONDS = 3600
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Reading:
    """One claim's counters at one moment, summed over its devices.

    Attributes:
        at: Unix seconds.
        gpu_seconds: GPU time had so far.
        waited_seconds: Time waited so far.
        memory_bytes: Memory in use now.
    """

    at: float
    gpu_seconds: float
    waited_seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Part:
    """What was used in one hour, which began at `starts_at` (Unix seconds, a multiple of 3600)."""

    starts_at: int
    gpu_seconds: float
    memory_byte_seconds: float
    waited_seconds: float


def parts_between(before: Reading, now: Reading, is_fresh: bool, longest_gap_seconds: float) -> list[Part]:
    """Return what was used between two readings of one claim, hour by hour, oldest first.

    Counters are exact over any gap and are spread evenly over it. Memory is known at its two ends only: it counts as
    their mean, for at most `longest_gap_seconds`, since nobody knows what was held in the middle of a long one.

    Args:
        before: The earlier reading.
        now: The later one. Where the clock was put back in between, its counters go to its own hour, and no memory.
        is_fresh: Whether the counters began again at 0 after `before`, as they do when the agent is restarted.
        longest_gap_seconds: Longest time for which two readings say what was held in between, > 0.
    """
    gpu_seconds = max(0.0, now.gpu_seconds - (0.0 if is_fresh else before.gpu_seconds))
    waited_seconds = max(0.0, now.waited_seconds - (0.0 if is_fresh else before.waited_seconds))
    seconds = max(0.0, now.at - before.at)
    mean_bytes = (before.memory_bytes + now.memory_bytes) / 2
    byte_seconds = mean_bytes * min(seconds, longest_gap_seconds)
    return [
        Part(starts_at, gpu_seconds * part, byte_seconds * part, waited_seconds * part)
        for starts_at, part in _hours(before.at, now.at)
    ]


def _hours(start: float, end: float) -> Iterator[tuple[int, float]]:
    """Give each hour between two moments, with the part of the time that lies in it."""
    if end <= start:
        yield _hour_of(end), 1.0
        return
    moment = start
    while moment < end:
        hour = _hour_of(moment)
        until = min(end, float(hour + HOUR_SECONDS))
        yield hour, (until - moment) / (end - start)
        moment = until


def _hour_of(moment: float) -> int:
    return math.floor(moment / HOUR_SECONDS) * HOUR_SECONDS
