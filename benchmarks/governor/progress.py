"""How far a tenant's work had come by when, and what follows from it. Pure: seconds and units of work.

A tenant counts its own finished units; a unit is a known piece of GPU time, measured alone in the same run.
That is the truth the governor is held against: work done, not what a meter says.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise


class Progress:
    """Units finished as a function of time since the start of a run, as a line through known points."""

    def __init__(self, times: Sequence[float], counts: Sequence[float]) -> None:
        """Take the points.

        Args:
            times: Seconds since the start, rising; shape (points,).
            counts: Units finished by then, not falling; shape (points,).
        """
        self._times = [0.0, *times]
        self._counts = [0.0, *counts]

    @classmethod
    def from_bins(cls, bins: Sequence[float], bin_seconds: float) -> Progress:
        """Return the progress of who finished `bins[i]` units between `i` and `i + 1` times `bin_seconds`.

        Where nothing was finished for a while, the next unit was on its way.
        """
        counts = accumulate(bins)
        points = [((i + 1) * bin_seconds, count) for i, count in enumerate(counts) if bins[i] > 0]
        return cls([time for time, _ in points], [count for _, count in points])

    @classmethod
    def from_times(cls, times: Sequence[float]) -> Progress:
        """Return the progress of who finished one unit at each of `times`; between two it is on its way."""
        return cls(times, [float(number + 1) for number in range(len(times))])

    @classmethod
    def total(cls, several: Sequence[Progress]) -> Progress:
        """Return what several processes did together."""
        if len(several) == 1:
            return several[0]
        times = sorted({time for one in several for time in one._times})
        return cls(times, [sum(one.at(time) for one in several) for time in times])

    @property
    def seconds(self) -> float:
        """Time of the last point."""
        return self._times[-1]

    def at(self, time: float) -> float:
        """Return the units finished by `time`; beyond the last point, what there was at it."""
        after = bisect_right(self._times, time)
        if after == len(self._times):
            return self._counts[-1]
        if after == 0:
            return 0.0
        t0, t1 = self._times[after - 1], self._times[after]
        c0, c1 = self._counts[after - 1], self._counts[after]
        return c0 + (c1 - c0) * (time - t0) / (t1 - t0)

    def rate(self, begin: float, end: float) -> float:
        """Return units per second between two times, `begin < end`."""
        return (self.at(end) - self.at(begin)) / (end - begin)

    def windows(self, begin: float, end: float, window_seconds: float) -> list[float]:
        """Return units per second in each whole window that fits between two times."""
        count = int((end - begin) / window_seconds + 1e-9)
        edges = [begin + number * window_seconds for number in range(count + 1)]
        return [self.rate(edges[number], edges[number + 1]) for number in range(count)]

    def points(self) -> Iterable[tuple[float, float]]:
        """Yield each time at which something finished, and the units finished by then."""
        before = 0.0
        for time, count in zip(self._times, self._counts, strict=True):
            if count > before:
                yield time, count
                before = count

    def longest_pause(self, begin: float, end: float) -> float:
        """Return the longest time between two times in which nothing finished."""
        moments = [begin, *(time for time, _ in self.points() if begin < time < end), end]
        return max(later - earlier for earlier, later in pairwise(moments))


def spread(figures: Sequence[float]) -> float:
    """Return the standard deviation of windows; 0 for fewer than two."""
    return statistics.pstdev(figures) if len(figures) > 1 else 0.0


def running_excess(progress: Progress, unit_seconds: float, ceiling: float) -> float:
    """Return how far the GPU time had was ever ahead of the ceiling, in units.

    Args:
        progress: Of the tenant.
        unit_seconds: GPU time of one unit.
        ceiling: Most it may have, as a fraction of time, 0..1.
    """
    return max(
        (count - ceiling * time / unit_seconds for time, count in progress.points()),
        default=0.0,
    )


def delay_until(progress: Progress, since: float, level: float, hold_seconds: float, limit_seconds: float) -> float:
    """Return how long after `since` a tenant works at a rate of `level` or more, and goes on for `hold_seconds`.

    Args:
        progress: Of the tenant.
        since: When it became entitled to that rate.
        level: Units per second.
        hold_seconds: Length of the windows looked at; the delay is where the first good one begins.
        limit_seconds: Longest delay looked for; the answer when there is none.
    """
    step = hold_seconds / 50
    delay = 0.0
    while delay < limit_seconds:
        if progress.rate(since + delay, since + delay + hold_seconds) >= level:
            return delay
        delay += step
    return limit_seconds


def quantile(figures: Sequence[float], part: float) -> float:
    """Return the figure that `part` (0..1) of the figures do not exceed; 0 when there are none."""
    if not figures:
        return 0.0
    return sorted(figures)[max(0, math.ceil(part * len(figures)) - 1)]
