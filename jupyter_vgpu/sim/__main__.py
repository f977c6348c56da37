"""`python -m jupyter_vgpu.sim`: make simulated boards, and make them fail."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.sim import create_boards, faults, known_boards


def _parser() -> argparse.ArgumentParser:
    """Return the commands and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_vgpu.sim", description="Make simulated boards, and make them fail."
    )
    parser.add_argument(
        "--state", type=Path, default=os.environ.get("JUPYTER_VGPU_SIM"), help="state file (JUPYTER_VGPU_SIM)"
    )
    parser.add_argument("--board", type=int, help="which board, from 0 (default: the first; all for mps)")
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="write a state file")
    create.add_argument("boards", help=f"such as 2xa100-80; known: {', '.join(known_boards())}")
    create.add_argument("--slowdown", type=int, default=1, help="how many times slower the boards' clock runs")
    mps = commands.add_parser("mps", help="contexts run at once, as under an MPS server, or in turns")
    mps.add_argument("state_of_mps", choices=["on", "off"])
    fault = commands.add_parser("fault", help="make a board fail")
    kinds = fault.add_subparsers(dest="kind", required=True)
    xid = kinds.add_parser("xid", help="hardware error: 79 the board is lost, 31 and 43 contexts are broken")
    xid.add_argument("xid", type=int)
    xid.add_argument("--pid", type=int, default=0, help="whose contexts; all without it")
    ecc = kinds.add_parser("ecc", help="memory errors")
    ecc.add_argument("--corrected", type=int, default=0)
    ecc.add_argument("--uncorrected", type=int, default=0)
    thermal = kinds.add_parser("thermal", help="a temperature; from 89 on the clocks go down")
    thermal.add_argument("celsius", type=int)
    stall = kinds.add_parser("stall", help="NVML takes that long")
    stall.add_argument("seconds", type=float)
    absurd = kinds.add_parser("absurd", help="NVML's process rows hold one that cannot be true")
    absurd.add_argument("state_of_rows", choices=["on", "off"])
    utilisation = kinds.add_parser("utilisation", help="NVML counts a process as busy in the turns of others, too")
    utilisation.add_argument("state_of_utilisation", choices=["on", "off"])
    allocation = kinds.add_parser("allocation", help="the n-th device allocation from now fails")
    allocation.add_argument("nth", type=int)
    kinds.add_parser("lost", help="the board is gone")
    driver = kinds.add_parser("driver", help="the driver has another version")
    driver.add_argument("cuda_version", type=int, help="1000 * major + 10 * minor, such as 11040")
    driver.add_argument("driver_version", help="such as 470.82.01")
    missing = kinds.add_parser("missing", help="the driver is without a function")
    missing.add_argument("function")
    kinds.add_parser("clear", help="end all faults")
    return parser


def _fault(options: argparse.Namespace) -> None:
    """Do what `fault` asks for."""
    state, board = options.state, options.board or 0
    actions: dict[str, Callable[[], None]] = {
        "xid": lambda: faults.raise_xid(state, options.xid, board, options.pid),
        "ecc": lambda: faults.add_ecc_errors(state, options.corrected, options.uncorrected, board),
        "thermal": lambda: faults.heat(state, options.celsius, board),
        "stall": lambda: faults.stall_nvml(state, options.seconds, board),
        "absurd": lambda: faults.set_absurd(state, options.state_of_rows == "on", board),
        "utilisation": lambda: faults.set_generous(state, options.state_of_utilisation == "on", board),
        "allocation": lambda: faults.fail_allocation(state, options.nth, board),
        "lost": lambda: faults.lose(state, board),
        "driver": lambda: faults.set_driver_version(state, options.cuda_version, options.driver_version),
        "missing": lambda: faults.remove_function(state, options.function),
        "clear": lambda: faults.clear(state),
    }
    actions[options.kind]()


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0, or 2 with a message when it cannot be done."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.state is None:
        parser.error("which state file? give --state FILE, or set JUPYTER_VGPU_SIM")
    try:
        if options.command == "create":
            create_boards(options.state, options.boards, options.slowdown, "boards")
        elif options.command == "mps":
            faults.set_mps(options.state, options.state_of_mps == "on", options.board)
        else:
            _fault(options)
    except (VGPUError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
