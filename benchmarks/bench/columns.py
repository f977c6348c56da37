"""Programs that print a table: a name and figures on each line, separated by tabs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

LIMIT_SECONDS = 300.0


def measure(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, list[float]]:
    """Return the figures by name as the program prints them.

    Raises:
        subprocess.SubprocessError: It failed, or took longer than five minutes.
    """
    done = subprocess.run(
        command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_SECONDS
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {name: [float(figure) for figure in figures] for name, *figures in rows}
