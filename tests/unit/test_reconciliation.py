"""NVML against the ledger: what lasts is shown, what passes the limit is said once, a moment is nothing."""

from __future__ import annotations

import pytest

from jupyter_vgpu.agent.reconciliation import EXCESS_LOOKS, LOOKS, Reconciliation, tolerance_bytes

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("differences", "drift"),
    [
        pytest.param([5, 5, 5], 0, id="not yet a second"),
        pytest.param([5, 7, 6, 9], 5, id="always more: the least of it"),
        pytest.param([-5, -7, -6, -9], -5, id="always less: the least of it"),
        pytest.param([5, 7, -6, 9], 0, id="sometimes more, sometimes less"),
        pytest.param([5, 0, 5, 5], 0, id="once exact"),
        pytest.param([5, 5, 5, 5, 0], 0, id="exact now"),
        pytest.param([0, 8, 8, 8, 8], 8, id="for a second now"),
        pytest.param([8, 8, 8, 8, None, 8], 0, id="NVML said nothing in between"),
    ],
)
def test_drift_is_what_all_looks_of_a_second_agree_on(differences: list[int | None], drift: int) -> None:
    ledger = Reconciliation()

    for each in differences:
        ledger.look(None if each is None else GIB + each * MIB, GIB, 2 * GIB)

    assert LOOKS == 4
    assert ledger.drift_bytes == drift * MIB


def test_a_limit_that_is_passed_for_two_seconds_is_said_once_and_again_after_it_held() -> None:
    ledger = Reconciliation()
    over, under = 12 * GIB, 9 * GIB

    said = [ledger.look(seen, seen, 10 * GIB) for seen in [over] * (2 * EXCESS_LOOKS) + [under] + [over] * EXCESS_LOOKS]

    assert [index for index, each in enumerate(said) if each] == [EXCESS_LOOKS - 1, 3 * EXCESS_LOOKS]
    assert said[EXCESS_LOOKS - 1] == "its processes have 12.0 GiB, and may have 10.0 GiB"


@pytest.mark.parametrize("beyond", [0, 1, 64 * MIB, int(0.02 * 10 * GIB)])
def test_what_figures_may_differ_by_is_no_excess(beyond: int) -> None:
    ledger = Reconciliation()

    assert not any(ledger.look(10 * GIB + beyond, 10 * GIB, 10 * GIB) for _ in range(3 * EXCESS_LOOKS))


def test_small_slices_are_allowed_64_mib() -> None:
    assert (tolerance_bytes(GIB), tolerance_bytes(100 * GIB)) == (64 * MIB, int(0.02 * 100 * GIB))
