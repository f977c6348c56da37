"""Run cells in a real IPython shell: one JSON list of sources in, one JSON list of results out."""

from __future__ import annotations

import json
import sys
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


class KeepingHook(DisplayHook):
    """Keeps what a front end would be sent."""

    kept: dict[str, str] | None = None

    def write_format_data(self, format_dict: dict[str, str], md_dict: Any = None) -> None:
        """Take every form of the cell's value."""
        KeepingHook.kept = format_dict


class Shell(InteractiveShell):
    """An IPython shell that keeps the values of its cells."""

    displayhook_class = KeepingHook


def run(shell: InteractiveShell, source: str) -> dict[str, Any]:
    """Return what `source` printed, showed and raised."""
    KeepingHook.kept = None
    with capture_output() as captured:
        result = shell.run_cell(source, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    return {
        "printed": captured.stdout,
        "shown": KeepingHook.kept or {},
        "displayed": [output.data for output in captured.outputs],
        "error": f"{type(error).__name__}: {error}" if error else "",
    }


def main() -> None:
    """Read, run, answer."""
    shell = Shell.instance()
    json.dump([run(shell, source) for source in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
