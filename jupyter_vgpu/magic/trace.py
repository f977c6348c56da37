"""A figure looked at again and again, in bounded room. Pure; no clock."""

from __future__ import annotations

MOST_VALUES = 1200
FIRST_PERIOD_SECONDS = 0.05
# Two looks are this far apart, or a little more, at last: a look costs the node's agent a question.
LONGEST_PERIOD_SECONDS = 1.0


class Trace:
    """What was seen so far, evenly spaced; a cell may run for days, and its output lies in the notebook's file.

    Once there are `MOST_VALUES`, two become one, the larger, and what comes is looked at half as often, until two
    looks are `LONGEST_PERIOD_SECONDS` apart.

    Attributes:
        values: What was seen, oldest first, at most `MOST_VALUES`; each is the most of its part of the time.
        period_seconds: Time to the next look, > 0.
        first: What was seen first; 0 before anything was.
        last: What was seen last; 0 before anything was.
    """

    def __init__(self) -> None:
        """Have seen nothing yet."""
        self.values: list[int] = []
        self.period_seconds = FIRST_PERIOD_SECONDS
        self.first = 0
        self.last = 0
        self._looks_per_value = 1
        self._looks = 0

    def add(self, value: int) -> None:
        """Take what was seen at one more look, >= 0."""
        if not self.values:
            self.first = value
        self.last = value
        if self._looks % self._looks_per_value:
            self.values[-1] = max(self.values[-1], value)
        else:
            self._make_room()
            self.values.append(value)
        self._looks += 1

    def _make_room(self) -> None:
        if len(self.values) < MOST_VALUES:
            return
        self.values = [max(pair) for pair in zip(self.values[::2], self.values[1::2], strict=True)]
        if self.period_seconds < LONGEST_PERIOD_SECONDS:
            self.period_seconds *= 2
        else:
            self._looks_per_value *= 2
        self._looks = 0
