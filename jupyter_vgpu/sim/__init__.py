"""Make the boards of the simulated driver.

The simulated `libcuda.so.1` and `libnvidia-ml.so.1` (`native/sim/`) read their boards from one state file that
all processes of the node map. This module writes that file from the descriptions in `boards/*.json`; the layout
is `sim_shared_t` in `native/sim/shared.h`. What can be changed while a board runs is in `jupyter_vgpu.sim.faults`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jupyter_vgpu.errors import BadValueError

BOARDS_DIR: Final = Path(__file__).resolve().parent.parent / "boards"
DEFAULT_BOARD: Final = "a100-80"
MAX_BOARDS: Final = 16
MAX_SLOWDOWN: Final = 1000

_MAGIC: Final = 0x4D495356475055
_LAYOUT: Final = 2
_HEADER: Final = struct.Struct("=QIIII80s80sI7I")
_BOARD: Final = struct.Struct("=96s32s16s5Q24I")
_MIG_PROFILE: Final = struct.Struct("=24s18IQ")
_MIG_PROFILES: Final = 10
_MIG_STARTS: Final = 8
_BOARD_BYTES: Final = _BOARD.size + _MIG_PROFILES * _MIG_PROFILE.size
_STATE_BYTES: Final = 35984984

_CUDA_VERSION: Final = 13000
_DRIVER_VERSION: Final = "580.159.04"
_MIB: Final = 1 << 20
_NAMESPACE: Final = uuid.UUID("b1c5d4de-3f3c-5a7e-9d55-6a757076677e")
_PART = re.compile(r"(?:(?P<count>[1-9][0-9]?)x)?(?P<board>[a-z][a-z0-9-]*)")


def known_boards() -> list[str]:
    """Return the names of the boards that can be simulated, in alphabetical order."""
    return sorted(path.stem for path in BOARDS_DIR.glob("*.json"))


def parse_boards(spec: str, key: str = "--simulate") -> list[str]:
    """Return the boards a text like `"a100-80"`, `"2xa100-80"` or `"a100-80,2xt4"` stands for, one name each.

    Args:
        spec: Names of known boards, separated by commas, each with an optional count in front.
        key: Name of the setting, for the message.

    Returns:
        Names in the order of their PCI addresses, 1 to 16 of them.

    Raises:
        BadValueError: A board is unknown, or there are too many; the message names the known ones.
    """
    allowed = (
        f"known boards are {', '.join(known_boards())}; several as '2x{DEFAULT_BOARD}' or separated by commas, "
        f"at most {MAX_BOARDS} in all"
    )
    names: list[str] = []
    for part in spec.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None or match["board"] not in known_boards():
            raise BadValueError(key, spec, allowed)
        names += [match["board"]] * int(match["count"] or 1)
    if len(names) > MAX_BOARDS:
        raise BadValueError(key, spec, allowed)
    return names


def create_boards(path: Path | str, spec: str = DEFAULT_BOARD, slowdown: int = 1, key: str = "--simulate") -> Path:
    """Write a state file with idle boards and return its path.

    Every user of the node may write it, as every user may open a real `/dev/nvidia0`: put it where only the
    right ones can reach it. Whoever creates it removes it. An existing file is replaced as a whole, so that
    processes which map the old one keep their own boards.

    Args:
        path: Where the file goes; its folder must exist.
        spec: Which boards, see `parse_boards`.
        slowdown: How many times slower than the machine's the boards' clock runs, 1 to 1000. Measurements on a
            busy machine are disturbed by so much less.
        key: What `spec` is called in messages.

    Raises:
        BadValueError: `spec` names no known board, or `slowdown` is out of range.
        OSError: The file cannot be written.
    """
    names = parse_boards(spec, key)
    if not 1 <= slowdown <= MAX_SLOWDOWN:
        raise BadValueError("slowdown", slowdown, f"a whole number from 1 to {MAX_SLOWDOWN} is")
    target = Path(path)
    boards = b"".join(_pack_board(name, number) for number, name in enumerate(names))
    versions = (_DRIVER_VERSION.encode(), f"13.{_DRIVER_VERSION}".encode())
    header = _HEADER.pack(_MAGIC, _LAYOUT, len(names), _CUDA_VERSION, slowdown, *versions, *[0] * 8)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(header + boards)
            file.truncate(_STATE_BYTES)
        temporary.chmod(0o666)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    return target


def is_state_file(path: Path | str) -> bool:
    """Return True when there is a state file of this version at `path`."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return False
    return size >= _STATE_BYTES and len(head) == _HEADER.size and _HEADER.unpack(head)[:2] == (_MAGIC, _LAYOUT)


def board_uuid(name: str, number: int) -> uuid.UUID:
    """Return the UUID of the `number`-th board of a node (from 0), the same on every machine.

    Source: a version 5 UUID (RFC 9562, 5.5) of the board's name and number.
    """
    return uuid.uuid5(_NAMESPACE, f"{name}/{number}")


def _describe(name: str) -> dict[str, Any]:
    """Return the description of a known board, as it stands in its file."""
    description: dict[str, Any] = json.loads((BOARDS_DIR / f"{name}.json").read_text("utf-8"))
    return description


def _pack_board(name: str, number: int) -> bytes:
    """Return one `sim_board_t`: the `number`-th of the node, from 0."""
    board = _describe(name)
    major, minor = (int(part) for part in str(board["compute_capability"]).split("."))
    numbers: Sequence[int] = (
        board["memory_mib"] * _MIB,
        board["reserved_mib"] * _MIB,
        board["context_mib"] * _MIB,
        board["bar1_mib"] * _MIB,
        board["l2_mib"] * _MIB,
        board["sm_count"],
        major,
        minor,
        board["sm_clock_mhz"],
        board["memory_clock_mhz"],
        board["memory_bus_bits"],
        board["cores_per_sm"],
        board["threads_per_sm"],
        board["blocks_per_sm"],
        board["shared_per_sm_kib"] * 1024,
        board["shared_per_block_optin_kib"] * 1024,
        0,  # PCI domain
        0x10 + number,  # bus
        0,  # device
        int(board["pci_device_id"], 16),
        int(board["pci_subsystem_id"], 16),
        board["pcie_generation"],
        board["power_limit_watt"] * 1000,
        board["power_idle_watt"] * 1000,
        board["nvml_architecture"],
        int(board["has_mig"]),
        len(board.get("mig_profiles", [])),
        0,
        0,
    )
    label = str(board["name"]).encode()
    serial = f"SIM{number:010d}".encode()
    profiles = b"".join(_pack_mig_profile(profile) for profile in board.get("mig_profiles", []))
    packed = _BOARD.pack(label, serial, board_uuid(name, number).bytes, *numbers) + profiles
    return packed.ljust(_BOARD_BYTES, b"\0")


def _pack_mig_profile(profile: dict[str, Any]) -> bytes:
    """Return one `sim_mig_profile_t`."""
    starts: list[int] = profile["starts"]
    return _MIG_PROFILE.pack(
        str(profile["name"]).encode(),
        profile["profile_id"],
        profile["count"],
        profile["compute_slices"],
        profile["memory_slices"],
        profile["sm_count"],
        profile["copy_engines"],
        profile["decoders"],
        profile["jpegs"],
        profile["ofas"],
        len(starts),
        *starts,
        *[0] * (_MIG_STARTS - len(starts)),
        profile["memory_mib"],
    )
