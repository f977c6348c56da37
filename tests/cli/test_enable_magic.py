"""`jupyter vgpu enable-magic`: the magic without `%load_ext`, and back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Vgpu = Callable[..., Any]


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    return tmp_path


def shell_says(source: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "-c", source],
        capture_output=True, text=True, timeout=240, check=False, env=dict(os.environ),
    )  # fmt: skip
    return completed.stdout + completed.stderr


def test_the_magic_is_there_without_loading_it_and_goes_again(vgpu: Vgpu, profiles: Path) -> None:
    assert "not found" in shell_says("%vgpu --help")

    enabled = vgpu("enable-magic")
    assert (enabled.returncode, enabled.stderr) == (0, "")
    assert "give back what torch" in shell_says("%vgpu --help")

    assert vgpu("enable-magic").returncode == 0
    assert vgpu("enable-magic", "--undo").returncode == 0
    assert "not found" in shell_says("%vgpu --help")
    assert vgpu("enable-magic", "--undo").returncode == 0


def test_an_unknown_profile_is_refused_with_the_known_ones(vgpu: Vgpu, profiles: Path) -> None:
    (profiles / "profile_course").mkdir()

    refused = vgpu("enable-magic", "--profile", "cuorse")

    assert refused.returncode == 2
    assert "course" in refused.stderr
    assert sorted(path.name for path in profiles.iterdir()) == ["profile_course"]


def test_a_file_of_somebody_else_is_left_alone(vgpu: Vgpu, profiles: Path) -> None:
    path = profiles / "profile_default" / "startup" / "50-jupyter-vgpu.py"
    path.parent.mkdir(parents=True)
    path.write_text("mine = 1\n")

    for arguments in ((), ("--undo",)):
        refused = vgpu("enable-magic", *arguments)
        assert (refused.returncode, path.read_text()) == (2, "mine = 1\n")
        assert str(path) in refused.stderr
