"""What is read off the rows of CASES 39 and 40."""

from __future__ import annotations

import pytest
from bench.processes import WorkerError
from governor.cases import unit_seconds
from governor.progress import Progress


def test_a_unit_takes_as_long_as_the_shortest_of_those_alone() -> None:
    assert unit_seconds(Progress.from_times([2.3, 4.3, 6.4])) == pytest.approx(2.0)


def test_one_launch_alone_tells_no_length() -> None:
    with pytest.raises(WorkerError, match="no length to compare with"):
        unit_seconds(Progress.from_times([2.3]))
