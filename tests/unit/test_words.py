"""What an agent answered, in words."""

from __future__ import annotations

import pytest

from jupyter_vgpu.client import GuaranteedInfo, guarantee_in_words


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ((0.25, 0, 0, False), "25% of each second, never missed"),
        ((0.125, 1, 0, False), "12.5% of each second, missed in 1"),
        ((1 / 3, 12345, 4, True), "33.3% of each second, missed in 12,345, now asked for more loudly"),
        ((1.0, 0, 0, False), "100% of each second, never missed"),
    ],
)
def test_a_guarantee_is_said_with_what_was_missed_of_it(kept: tuple[float, int, int, bool], expected: str) -> None:
    least, violations, in_a_row, raised = kept
    told: GuaranteedInfo = {"least": least, "violations": violations, "in_a_row": in_a_row, "raised": raised}

    assert guarantee_in_words(told) == expected
