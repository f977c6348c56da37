"""CASES 18: rows of nonsense from NVML are left out."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from jupyter_vgpu.errors import NoDriverError
from jupyter_vgpu.nvml import DeviceRow, Nvml, ProcessRow, is_true_device, true_processes, true_utilisation

GIB = 1 << 30
TRUE = DeviceRow(0, "GPU-d35acab6-c5d2-5f98-8ea6-6e43bcb00c79", "board", 80 * GIB, "8.0", 108, "580")


@pytest.mark.parametrize(
    ("row", "is_true"),
    [
        pytest.param(TRUE, True, id="a device"),
        pytest.param(DeviceRow(0, "", "board", GIB, "", 0, ""), False, id="no UUID"),
        pytest.param(DeviceRow(0, "GPU-xyz", "board", GIB, "", 0, ""), False, id="no UUID's form"),
        pytest.param(DeviceRow(0, TRUE.uuid, "board", 0, "", 0, ""), False, id="no memory"),
        pytest.param(DeviceRow(0, TRUE.uuid, "board", 2**64 - 1, "", 0, ""), False, id="16 EiB"),
    ],
)
def test_a_device_that_cannot_be_is_left_out(row: DeviceRow, is_true: bool) -> None:
    assert is_true_device(row) is is_true


def test_processes_that_cannot_be_are_left_out() -> None:
    rows = [
        ProcessRow(1920151404, GIB),
        ProcessRow(0, GIB),
        ProcessRow(10, 17592186044134 << 20),
        ProcessRow(11, GIB),
        ProcessRow(11, 2 * GIB),
        ProcessRow(12, 0),
        ProcessRow(13, None),
    ]

    assert true_processes(rows, 80 * GIB) == [ProcessRow(11, GIB), ProcessRow(12, 0), ProcessRow(13, None)]


def test_parts_of_time_that_cannot_be_are_left_out() -> None:
    """NVML has said 4 billion per cent."""
    samples = [
        (11, 4_294_967_295.0),
        (11, 40.0),
        (11, 60.0),
        (12, -1.0),
        (13, float("nan")),
        (1920151404, 50.0),
        (0, 50.0),
    ]

    assert true_utilisation(samples) == {11: 0.5}


def test_a_library_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoDriverError, match=r"nowhere\.so"):
        Nvml(tmp_path / "nowhere.so").devices()


def test_a_stalled_nvml_holds_nobody_up() -> None:
    """Whoever asks waits for the limit, and the next one is told at once."""
    stuck = threading.Event()
    nvml = Nvml(timeout_seconds=0.1)

    with pytest.raises(NoDriverError, match=r"within 0\.1 s"):
        nvml._ask(stuck.wait)
    time.sleep(0.05)
    with pytest.raises(NoDriverError, match="stuck in one call"):
        nvml.devices()

    stuck.set()
    nvml.close()
