"""`jupyter vgpu doctor`: what slices need, in the order in which they need it."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from jupyter_vgpu.cli import checks
from jupyter_vgpu.cli.checks import Finding


def doctor(options: argparse.Namespace) -> int:
    """Check everything, print what was found, and return 1 when something needed is missing, else 0."""
    with tempfile.TemporaryDirectory(prefix="jupyter-vgpu-doctor-") as folder:
        findings = examine(options.simulate, options.agent, Path(folder))
    if options.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        print("\n".join(render(finding) for finding in findings))
        print("\n" + verdict(findings))
    return 1 if any(finding.is_missing for finding in findings) else 0


def examine(simulate: str | None, agent: Path | None, folder: Path) -> list[Finding]:
    """Return what was found, in order.

    Args:
        simulate: Board to simulate instead of the NVIDIA driver; `None` = the driver, unless the agent has simulated
            devices.
        agent: Runtime directory of the agent to look for; `None` = where commands look for it.
        folder: An empty directory for what a check has to make.
    """
    from jupyter_vgpu.agent.node import simulated_board
    from jupyter_vgpu.sim import DEFAULT_BOARD

    if simulate is None and checks.is_simulated(agent):
        simulate = DEFAULT_BOARD
    with simulated_board(simulate, folder / "board.sim") as state:
        todo: list[Callable[[], Finding]] = [
            lambda: checks.driver_library(state),
            lambda: checks.nvml_devices(state),
            checks.glibc,
            checks.intercept_library,
            checks.agent_library,
            checks.sealed_pages,
            checks.pidfd,
            lambda: checks.device_permissions(state),
            lambda: checks.node_agent(agent),
            checks.jupyterhub,
            checks.jupyter_server,
            checks.panel,
        ]
        return [check() for check in todo]


def render(finding: Finding) -> str:
    """Return the lines for one finding: its state, what was found, and the fix."""
    line = f"{finding.state:8}{finding.name}: {finding.found}"
    return f"{line}\n{'':8}-> {finding.fix}" if finding.fix else line


def verdict(findings: list[Finding]) -> str:
    """Return the last line: whether slices can be had here."""
    missing = [finding.name for finding in findings if finding.is_missing]
    if missing:
        return f"No slice can be had here until this is there: {', '.join(missing)}."
    return "Slices can be had here."
