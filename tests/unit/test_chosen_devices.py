"""Which of a node's devices an agent is told to serve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.inventory import chosen
from jupyter_vgpu.model import Device

FIRST = Device("GPU-a", "NVIDIA A100", 0, 80 << 30, 108, "8.0", False, "580.1")
DEVICES = [FIRST, replace(FIRST, uuid="GPU-b", index=1), replace(FIRST, uuid="GPU-c", index=2)]


@pytest.mark.parametrize("only", [None, ""])
def test_with_nothing_said_all_are_served(only: str | None) -> None:
    assert chosen(DEVICES, only) == DEVICES


@pytest.mark.parametrize("only", ["0,2", "2, 0", "GPU-c,0", " GPU-a , GPU-c "])
def test_numbers_and_uuids_name_devices_in_any_order(only: str) -> None:
    assert chosen(DEVICES, only) == [DEVICES[0], DEVICES[2]]


@pytest.mark.parametrize("only", ["3", "-1", "0,0", "0,GPU-a", "GPU-x", "0;2", ",", "0,", "all"])
def test_what_is_no_device_is_refused_and_never_means_all_of_them(only: str) -> None:
    with pytest.raises(BadValueError, match=r"1 \(GPU-b\)") as refused:
        chosen(DEVICES, only, "--devices")
    assert repr(only) in str(refused.value)
    assert "--devices" in str(refused.value)
