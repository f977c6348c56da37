"""Make a simulated board fail, or behave otherwise: what can be done to it while programs run on it.

Each function writes into the state file that all processes of the node map (`sim_control_t` in
`native/sim/shared.h`), so it takes effect at once. `python -m jupyter_vgpu.sim` does the same from a shell.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.native import SIMULATED_CUDA, SIMULATED_NVML

MAX_BOARDS: Final = 16

_SLOWDOWN_AT: Final = 20
_CUDA_VERSION_AT: Final = 16
_DRIVER_VERSION_AT: Final = 24
_VERSION_BYTES: Final = 80
_FIRST_CUDA_VERSION: Final = 1000
_LONGEST_VERSION: Final = 60  # NVML's own has the CUDA version before it
_MISSING_AT: Final = 21336
_MISSING_BYTES: Final = 64
_MISSING_COUNT: Final = 8
_CONTROLS_AT: Final = 21848
_CONTROL_BYTES: Final = 5840
_XIDS_AT: Final = 72
_XID_COUNT: Final = 16

# Offsets in sim_control_t.
_FIELDS: Final = {
    "is_lost": (0, "=I"),
    "is_mps": (4, "=I"),
    "fault_serial": (8, "=I"),
    "fault_pid": (12, "=I"),
    "fault_result": (16, "=I"),
    "is_absurd": (20, "=I"),
    "nvml_stall_until_ns": (24, "=Q"),
    "allocations_to_failure": (32, "=Q"),
    "temperature_c": (40, "=I"),
    "throttle_reasons": (44, "=I"),
    "ecc_corrected": (48, "=Q"),
    "ecc_uncorrected": (56, "=Q"),
    "xid_count": (64, "=Q"),
    "is_generous": (5328, "=I"),
}

XID_ILLEGAL_ADDRESS: Final = 31
XID_STOPPED: Final = 43
XID_DOUBLE_BIT: Final = 48
XID_LOST: Final = 79
_CUDA_ERROR_ECC_UNCORRECTABLE: Final = 214
# What the contexts that are hit answer from then on: CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED.
_RESULT_OF_XID: Final = {XID_ILLEGAL_ADDRESS: 700, XID_STOPPED: 719}
# NVML's bits: slowed down by software and by hardware, because of the heat.
_THERMAL_REASONS: Final = 0x60
_SLOWDOWN_CELSIUS: Final = 89
_HOTTEST_CELSIUS: Final = 150
_LONGEST_STALL_SECONDS: Final = 3600
_MOST: Final = 2**31 - 1


class Node:
    """The state file of a simulated node, open for changes."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Wrap the mapped file."""
        self._memory = memory
        self.board_count = int(struct.unpack_from("=I", memory, 12)[0])
        self.slowdown = max(1, int(struct.unpack_from("=I", memory, _SLOWDOWN_AT)[0]))

    def get(self, board: int, field: str) -> int:
        """Return a field of a board's controls."""
        offset, layout = _FIELDS[field]
        value: int = struct.unpack_from(layout, self._memory, self._at(board) + offset)[0]
        return value

    def set(self, board: int, field: str, value: int) -> None:
        """Set a field of a board's controls."""
        offset, layout = _FIELDS[field]
        struct.pack_into(layout, self._memory, self._at(board) + offset, value)

    def add_xid(self, board: int, xid: int, pid: int) -> None:
        """Let NVML tell of a hardware error."""
        count = self.get(board, "xid_count")
        place = self._at(board) + _XIDS_AT + count % _XID_COUNT * 16
        struct.pack_into("=IIQ", self._memory, place, xid, pid, self.now_ns())
        self.set(board, "xid_count", count + 1)

    def hit_contexts(self, board: int, result: int, pid: int) -> None:
        """Let the contexts of one process, or of all for pid 0, answer `result` from now on."""
        self.set(board, "fault_pid", pid)
        self.set(board, "fault_result", result)
        self.set(board, "fault_serial", self.get(board, "fault_serial") + 1)

    def set_missing(self, names: list[str]) -> None:
        """Name the functions the driver is without, at most 8."""
        for number in range(_MISSING_COUNT):
            name = names[number].encode() if number < len(names) else b""
            place = _MISSING_AT + number * _MISSING_BYTES
            self._memory[place : place + _MISSING_BYTES] = name.ljust(_MISSING_BYTES, b"\0")

    def missing(self) -> list[str]:
        """Return the functions the driver is without."""
        places = (_MISSING_AT + number * _MISSING_BYTES for number in range(_MISSING_COUNT))
        names = (self._memory[place : place + _MISSING_BYTES].split(b"\0")[0].decode() for place in places)
        return [name for name in names if name]

    def set_driver(self, cuda_version: int, driver_version: str) -> None:
        """Set what the driver says its versions are."""
        struct.pack_into("=I", self._memory, _CUDA_VERSION_AT, cuda_version)
        texts = (driver_version, f"{cuda_version // 1000}.{driver_version}")
        for number, text in enumerate(texts):
            place = _DRIVER_VERSION_AT + number * _VERSION_BYTES
            self._memory[place : place + _VERSION_BYTES] = text.encode().ljust(_VERSION_BYTES, b"\0")

    def now_ns(self) -> int:
        """Return the time on the boards' clock."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // self.slowdown

    def _at(self, board: int) -> int:
        if not 0 <= board < self.board_count:
            raise BadValueError("board", board, f"boards 0 to {self.board_count - 1} of this node are")
        return _CONTROLS_AT + board * _CONTROL_BYTES


def _within(key: str, value: float, most: float) -> None:
    """Raise for a number that is not in 0..`most`, NaN too."""
    if not 0 <= value <= most:
        raise BadValueError(key, value, f"a number from 0 to {most:.0f} is")


@contextmanager
def open_node(path: Path | str) -> Iterator[Node]:
    """Yield the node whose state file is at `path`.

    Raises:
        BadValueError: There is no state file of this version.
    """
    from jupyter_vgpu.sim import is_state_file

    if not is_state_file(path):
        raise BadValueError(
            "state", str(path), "the state file of simulated boards is, which `python -m jupyter_vgpu.sim create` makes"
        )
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield Node(memory)


def set_mps(path: Path | str, active: bool, board: int | None = None) -> None:
    """Let the contexts of all processes run at once, as under an MPS server, or in turns again.

    Args:
        path: The state file.
        active: True for at once.
        board: Which one; None for all.
    """
    with open_node(path) as node:
        for number in range(node.board_count) if board is None else [board]:
            node.set(number, "is_mps", int(active))


def raise_xid(path: Path | str, xid: int, board: int = 0, pid: int = 0) -> None:
    """Raise a hardware error.

    Args:
        path: The state file.
        xid: 79: the board has fallen off the bus. 31, 43: contexts of `pid` are broken, as after an illegal
            address or a launch that was stopped. Any other is only told by NVML.
        board: Which one.
        pid: Whose contexts 31 and 43 hit; 0 for all.
    """
    _within("xid", xid, _MOST)
    _within("pid", pid, _MOST)
    with open_node(path) as node:
        if xid == XID_LOST:
            node.set(board, "is_lost", 1)
        elif xid in _RESULT_OF_XID:
            node.hit_contexts(board, _RESULT_OF_XID[xid], pid)
        node.add_xid(board, xid, pid)


def add_ecc_errors(path: Path | str, corrected: int = 0, uncorrected: int = 0, board: int = 0) -> None:
    """Count memory errors; uncorrected ones break all contexts and raise Xid 48."""
    _within("corrected", corrected, _MOST)
    _within("uncorrected", uncorrected, _MOST)
    with open_node(path) as node:
        node.set(board, "ecc_corrected", node.get(board, "ecc_corrected") + corrected)
        node.set(board, "ecc_uncorrected", node.get(board, "ecc_uncorrected") + uncorrected)
        if uncorrected > 0:
            node.hit_contexts(board, _CUDA_ERROR_ECC_UNCORRECTABLE, 0)
            node.add_xid(board, XID_DOUBLE_BIT, 0)


def heat(path: Path | str, celsius: int, board: int = 0) -> None:
    """Set the temperature; from 89 degrees on the clocks go down. 0: as the load makes it."""
    _within("celsius", celsius, _HOTTEST_CELSIUS)
    with open_node(path) as node:
        node.set(board, "temperature_c", celsius)
        node.set(board, "throttle_reasons", _THERMAL_REASONS if celsius >= _SLOWDOWN_CELSIUS else 0)


def stall_nvml(path: Path | str, seconds: float, board: int = 0) -> None:
    """Let NVML calls about the board take until `seconds` from now."""
    _within("seconds", seconds, _LONGEST_STALL_SECONDS)
    with open_node(path) as node:
        node.set(board, "nvml_stall_until_ns", node.now_ns() + int(seconds * 1e9 / node.slowdown))


def set_absurd(path: Path | str, active: bool, board: int = 0) -> None:
    """Let NVML's process rows hold one that cannot be true, or not."""
    with open_node(path) as node:
        node.set(board, "is_absurd", int(active))


def set_generous(path: Path | str, active: bool, board: int = 0) -> None:
    """Let NVML's per-process utilisation count the others' turns, too, or not.

    Real NVML was seen to say 99 and 97 % for two tenants that had 48 % each.
    """
    with open_node(path) as node:
        node.set(board, "is_generous", int(active))


def fail_allocation(path: Path | str, nth: int = 1, board: int = 0) -> None:
    """Let the `nth` device allocation from now on fail, of whatever process; 0 for none."""
    _within("nth", nth, _MOST)
    with open_node(path) as node:
        node.set(board, "allocations_to_failure", nth)


def lose(path: Path | str, board: int = 0) -> None:
    """Let the board be gone, without an Xid."""
    with open_node(path) as node:
        node.set(board, "is_lost", 1)


def set_driver_version(path: Path | str, cuda_version: int, driver_version: str) -> None:
    """Let the driver be of another version for processes that start from now on.

    Args:
        path: The state file.
        cuda_version: 1000 × major + 10 × minor, such as 11040.
        driver_version: Such as "470.82.01".

    Raises:
        BadValueError: A version is out of range, or there is no such state file.
    """
    if not _FIRST_CUDA_VERSION <= cuda_version <= _MOST or cuda_version % 10 != 0:
        raise BadValueError("cuda_version", cuda_version, "a number of 1000 * major + 10 * minor is, as 11040")
    if not 0 < len(driver_version.encode()) < _LONGEST_VERSION:
        raise BadValueError(
            "driver_version", driver_version, f"a text of 1 to {_LONGEST_VERSION - 1} bytes is, as 470.82.01"
        )
    with open_node(path) as node:
        node.set_driver(cuda_version, driver_version)


def _is_known(name: str) -> bool:
    """Return whether the simulated driver has the function, where it is built: its file names all that it exports."""
    libraries = [path for path in (SIMULATED_CUDA, SIMULATED_NVML) if path.exists()]
    return not libraries or any(f"\0{name}\0".encode() in path.read_bytes() for path in libraries)


def remove_function(path: Path | str, name: str) -> None:
    """Let the driver be without a function: `cuGetProcAddress` does not find it, an NVML one says so.

    Raises:
        BadValueError: There is no such function, or eight are missing already.
    """
    with open_node(path) as node:
        names = node.missing()
        if not 0 < len(name.encode()) < _MISSING_BYTES or len(names) == _MISSING_COUNT:
            raise BadValueError(
                "function", name, f"a name of up to {_MISSING_BYTES - 1} bytes is, {_MISSING_COUNT} in all"
            )
        if not _is_known(name):
            raise BadValueError(
                "function", name, "a function of libcuda.so.1 or libnvidia-ml.so.1 is, as cuMemAllocAsync"
            )
        node.set_missing([*names, name])


def clear(path: Path | str) -> None:
    """End all faults; contexts that were hit stay broken, as after real ones."""
    with open_node(path) as node:
        node.set_missing([])
        node.set_driver(13000, "580.159.04")
        for board in range(node.board_count):
            for field in _FIELDS:
                if field not in ("is_mps", "fault_serial", "xid_count"):
                    node.set(board, field, 0)
