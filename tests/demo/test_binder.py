"""What a Binder starts: a command in a slice of a simulated board, and the demo's notebook in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def in_binder(*command: str, home: Path) -> subprocess.CompletedProcess[str]:
    scripts = str(Path(sys.executable).parent)
    return subprocess.run(
        [ROOT / "binder" / "start", *command],
        cwd=home,
        env={**os.environ, "HOME": str(home), "PATH": os.pathsep.join([scripts, os.environ["PATH"]])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )


def test_the_command_runs_in_a_quarter_of_a_simulated_board(tmp_path: Path) -> None:
    done = in_binder("jupyter", "vgpu", "status", home=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Simulated" in done.stdout
    assert "19.8 GiB" in done.stdout


def test_the_exit_status_is_the_commands(tmp_path: Path) -> None:
    assert in_binder("sh", "-c", "exit 7", home=tmp_path).returncode == 7


def test_the_demos_notebook_runs_to_its_end(tmp_path: Path) -> None:
    # Its cells assert what they show: refused past the limit, served again after.
    shutil.copy(ROOT / "demo" / "try-your-slice.ipynb", tmp_path)

    done = in_binder("jupyter", "execute", "try-your-slice.ipynb", home=tmp_path)

    assert done.returncode == 0, done.stderr
