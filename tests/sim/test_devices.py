"""Which boards a client sees, and what they say of themselves."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.sim import board_uuid, create_boards, known_boards, parse_boards

SEEN = """
    result = code(*cuda.cuInit(0))
    seen = []
    if result == 0:
        for device in range(ok(*cuda.cuDeviceGetCount())):
            seen.append(bytes(ok(*cuda.cuDeviceGetUuid(device)).bytes).hex())
    say([result, seen])
"""


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        pytest.param("0,1,2", [0, 1, 2], id="all in order"),
        pytest.param("2,0", [2, 0], id="an order of one's own"),
        pytest.param("1", [1], id="one of them"),
        pytest.param("", [], id="an empty list hides all"),
        pytest.param("-1", [], id="-1 hides all"),
        pytest.param("1,9,0", [1], id="an invalid entry ends the list"),
        pytest.param("GPU-{1}", [1], id="a UUID"),
        pytest.param("GPU-{1:.8}", [1], id="the beginning of a UUID"),
        pytest.param("GPU-{2},0", [2, 0], id="a UUID and an index"),
        pytest.param("GPU-ffffffff", [], id="an unknown UUID"),
    ],
)
def test_cuda_visible_devices(make_node: Callable[[str], Any], visible: str, numbers: list[int]) -> None:
    uuids = [board_uuid("t4", number) for number in range(3)]
    node = make_node("3xt4")

    result, seen = node.run(SEEN, CUDA_VISIBLE_DEVICES=visible.format(*map(str, uuids)))

    assert seen == [uuids[number].hex for number in numbers]
    assert result == (0 if numbers else 100)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        pytest.param({}, ["h100", "a100-80", "t4"], id="fastest first"),
        pytest.param({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ["t4", "a100-80", "h100"], id="by address"),
    ],
)
def test_cuda_orders_boards_by_speed_unless_told_otherwise(
    make_node: Callable[[str], Any], order: dict[str, str], names: list[str]
) -> None:
    place = {"t4": 0, "a100-80": 1, "h100": 2}

    _, seen = make_node("t4,a100-80,h100").run(SEEN, **order)

    assert seen == [board_uuid(name, place[name]).hex for name in names]


def test_nvml_sees_all_boards_by_address_whatever_cuda_sees(make_node: Callable[[str], Any]) -> None:
    seen = make_node("t4,a100-80").run(
        """
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        say([[pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetPciInfo(handle).busId] for handle in handles])
        """,
        CUDA_VISIBLE_DEVICES="",
    )

    assert seen == [
        [f"GPU-{board_uuid('t4', 0)}", "00000000:10:00.0"],
        [f"GPU-{board_uuid('a100-80', 1)}", "00000000:11:00.0"],
    ]


def test_each_board_has_its_own_memory(make_node: Callable[[str], Any]) -> None:
    first, second = make_node("2xa100-80").run("""
        start(1)
        second = free_bytes()
        ok(*cuda.cuMemAlloc(5 * GIB))
        used = [pynvml.nvmlDeviceGetMemoryInfo(nvml(i), version=pynvml.nvmlMemory_v2).used for i in (0, 1)]
        say([used[0], used[1] == second - free_bytes() + 450 * MIB])
    """)

    assert first == 0
    assert second


@pytest.mark.parametrize("board", known_boards())
def test_every_board_says_that_it_is_simulated(make_node: Callable[[str], Any], board: str) -> None:
    told = make_node(board).run("""
        start()
        attribute = cuda.CUdevice_attribute
        def figure(name):
            return ok(*cuda.cuDeviceGetAttribute(getattr(attribute, "CU_DEVICE_ATTRIBUTE_" + name), 0))
        handle = nvml()
        say({
            "names": [ok(*cuda.cuDeviceGetName(100, 0)).decode().rstrip("\\0 "), pynvml.nvmlDeviceGetName(handle)],
            "capability": [
                [figure("COMPUTE_CAPABILITY_MAJOR"), figure("COMPUTE_CAPABILITY_MINOR")],
                list(ok(*cuda.cuDeviceComputeCapability(0))),
                list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
            ],
            "cores per sm": pynvml.nvmlDeviceGetNumGpuCores(handle) / figure("MULTIPROCESSOR_COUNT"),
            "uuids": [str(ok(*cuda.cuDeviceGetUuid(0)).bytes.hex()), pynvml.nvmlDeviceGetUUID(handle)],
            "address": [
                ok(*cuda.cuDeviceGetPCIBusId(32, 0)).decode().rstrip("\\0 "),
                pynvml.nvmlDeviceGetPciInfo(handle).busId,
            ],
        })
    """)

    assert told["names"][0].startswith("Simulated ")
    for key in ("names", "capability"):
        assert all(each == told[key][0] for each in told[key]), key
    assert told["cores per sm"] in (64, 128)
    assert told["uuids"][1] == f"GPU-{board_uuid(board, 0)}"
    assert told["uuids"][0] == board_uuid(board, 0).hex
    assert told["address"] == ["0000:10:00.0", "00000000:10:00.0"]


NO_BOARD = """
    result = code(*cuda.cuInit(0))
    pynvml.nvmlInit()
    say([result, pynvml.nvmlDeviceGetCount()])
"""


def _make_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _make_garbage(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def _make_empty(path: Path) -> None:
    path.write_bytes(b"")


def _ask_for_too_many_boards(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[12:16] = struct.pack("=I", 4000)
    path.write_bytes(content)


def _leave_a_name_without_an_end(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[216 : 216 + 96] = b"x" * 96
    path.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [_make_short, _make_garbage, _make_empty, _ask_for_too_many_boards, _leave_a_name_without_an_end, Path.unlink],
)
def test_a_state_file_that_is_not_one_means_no_device(node: Any, spoil: Callable[[Path], None]) -> None:
    spoil(node.state)

    assert node.run(NO_BOARD) == [100, 0]


def test_no_state_file_named_means_no_device(node: Any) -> None:
    assert node.run(NO_BOARD, JUPYTER_VGPU_SIM="") == [100, 0]


def test_boards_are_the_same_each_time_they_are_made(tmp_path: Path) -> None:
    first = create_boards(tmp_path / "first", "2xh200").read_bytes()

    assert create_boards(tmp_path / "second", "2xh200").read_bytes() == first


@pytest.mark.parametrize("spec", ["v100", "", "2x", "0xt4", "17xt4", "t4,", "a100_80", "-1xt4", "2 x t4", "../t4"])
def test_an_unknown_board_is_refused_with_the_known_ones_and_nothing_is_written(tmp_path: Path, spec: str) -> None:
    with pytest.raises(BadValueError, match="known boards are a100-40, a100-80, a30, h100, h200, t4"):
        create_boards(tmp_path / "state", spec)

    assert list(tmp_path.iterdir()) == []


def test_boards_can_be_mixed() -> None:
    assert parse_boards("a100-80, 2xt4") == ["a100-80", "t4", "t4"]


def test_a_new_state_file_does_not_disturb_those_who_use_the_old_one(node: Any) -> None:
    user = node.start("""
        start()
        ok(*cuda.cuMemAlloc(GIB))
        say("held")
        heard()
        say(code(*cuda.cuMemAlloc(GIB)))
    """)
    user.hear()

    create_boards(node.state, "t4")
    user.tell("go on")

    assert user.hear() == 0
