"""`jupyter vgpu status --trace`: what it refuses, and that nobody waits for a trace that cannot be written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Vgpu = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("seconds", ["0", "-1", "1e9", "inf"])
def test_a_trace_of_no_time_or_of_more_than_there_may_be_is_refused(
    vgpu: Vgpu, system_agent: Path, tmp_path: Path, seconds: str
) -> None:
    out = tmp_path / "out.json"

    done = vgpu("status", "--agent", str(system_agent), "--trace", str(out), f"--trace-seconds={seconds}")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"jupyter vgpu status: --trace-seconds: {float(seconds)!r} is not allowed; "
        "a number of seconds from 0.01 to 30 is\n"
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere/out.json", "there is no folder "),
        (".", "it is a folder itself"),
        ("file/out.json", "there is no folder "),
    ],
    ids=["no such folder", "a folder", "a file for a folder"],
)
def test_where_nothing_can_be_written_is_said_before_anything_is_traced(
    vgpu: Vgpu, tmp_path: Path, name: str, why: str
) -> None:
    """No agent is asked: there is none, and that is not what is said."""
    (tmp_path / "file").touch()

    done = vgpu("status", "--agent", str(tmp_path), "--trace", str(tmp_path / name), "--trace-seconds", "30")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("jupyter vgpu status: --trace: ")
    assert f"a file in a folder that exists and may be written is ({why}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_an_agent_it_is_said_where_none_answers_and_nothing_is_left(vgpu: Vgpu, tmp_path: Path) -> None:
    done = vgpu("status", "--agent", str(tmp_path), "--trace", str(tmp_path / "out.json"))

    assert (done.returncode, done.stdout) == (1, "")
    assert f"no node agent answers at {tmp_path}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_says_how_a_trace_is_opened(vgpu: Vgpu) -> None:
    done = vgpu("status", "--help")

    assert "ui.perfetto.dev" in " ".join(done.stdout.split())
