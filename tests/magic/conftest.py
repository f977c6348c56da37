"""Cells run in real IPython shells, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CELLS = Path(__file__).with_name("cells.py")
IN_SLICE = ("-m", "jupyter_vgpu.cli", "run", "--simulate", "a100-80", "--share", "1/4")

Results = list[dict[str, Any]]


@pytest.fixture(scope="session")
def run_cells(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    """Return a function that runs cells one after the other in a new shell, and returns what each gave."""

    def run(*cells: str, in_slice: bool = True, wishes: tuple[str, ...] = ()) -> Results:
        folder = tmp_path_factory.mktemp("shell")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_VGPU_A")}
        completed = subprocess.run(
            [sys.executable, *((*IN_SLICE, *wishes, "--", sys.executable) if in_slice else ()), str(CELLS)],
            input=json.dumps(["%load_ext jupyter_vgpu", *cells]),
            capture_output=True,
            text=True,
            cwd=folder,
            env={**environment, "IPYTHONDIR": str(folder / "ipython")},
            timeout=300,
        )
        assert completed.returncode == 0, completed.stderr
        results: Results = json.loads(completed.stdout)[1:]
        return results

    return run
