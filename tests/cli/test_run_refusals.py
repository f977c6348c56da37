"""`jupyter vgpu run`: what it refuses, and that it then has started nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.drivers import without_a_driver

SIMULATED = ("run", "--simulate", "a100-80")
QUARTER = (*SIMULATED, "--share", "1/4")
Vgpu = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param([], "--share: nothing was given; one of --profile NAME, --share PART", id="no amount"),
        pytest.param(["--share", "0"], "--share: '0' is not allowed; a part", id="share 0"),
        pytest.param(["--share", "1.5"], "--share: '1.5'", id="share 1.5"),
        pytest.param(["--share", "nan"], "--share: 'nan'", id="share NaN"),
        pytest.param(["--share", "0,5"], "--share: '0,5'", id="share 0,5"),
        pytest.param(["--memory", "8GiBB"], "--memory: '8GiBB' is not allowed; a size", id="8GiBB"),
        pytest.param(["--memory", "8"], "--memory: '8'", id="8 of nothing"),
        pytest.param(["--memory", ""], "--memory: ''", id="an empty size"),
        pytest.param(["--share", "1/4", "--ceiling", "1/8"], "--ceiling: '1/8'", id="ceiling below share"),
        pytest.param(["--share", "1/4", "--guarantee", "1/2"], "--guarantee: '1/2'", id="guarantee above share"),
        pytest.param(["--share", "1/4", "--guarantee", "0"], "--guarantee: '0'", id="guarantee of nothing"),
        pytest.param(["--guarantee", "1/4"], "--share", id="guarantee alone"),
        pytest.param(
            ["--memory", "40GiB", "--guarantee", "3/4"], "guarantee of profile", id="guarantee above memory's share"
        ),
        pytest.param(
            ["--memory", "40GiB", "--ceiling", "1/8"], "ceiling of profile", id="ceiling below memory's share"
        ),
        pytest.param(["--profile", "1/3 GPU"], "'1/8 GPU', '1/4 GPU', '1/2 GPU', 'whole GPU' is", id="unknown profile"),
        pytest.param(
            ["--profile", "1/4 GPU", "--share", "1"], "--share: '1' is not allowed; it or --profile", id="both"
        ),
        pytest.param(["--config", "/nowhere", "--profile", "x"], "config: '/nowhere'", id="no such file"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_2(vgpu: Vgpu, temporary: Path, options: list[str], message: str) -> None:
    done = vgpu(*SIMULATED, *options, "--", "echo", "started")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("jupyter vgpu run: ")
    assert message in done.stderr
    assert list(temporary.iterdir()) == []


def test_an_unknown_board_lists_the_known_ones(vgpu: Vgpu) -> None:
    done = vgpu("run", "--simulate", "a1000", "--share", "1/4", "--", "true")

    assert done.returncode == 2
    assert "known boards are a100-40, a100-80" in done.stderr


def test_no_command_is_a_bad_value(vgpu: Vgpu) -> None:
    done = vgpu(*QUARTER)

    assert done.returncode == 2
    assert "COMMAND: nothing was given; one is needed, as in: jupyter vgpu run" in done.stderr


def test_more_memory_than_the_device_has_is_refused_with_what_would_fit(vgpu: Vgpu) -> None:
    done = vgpu(*SIMULATED, "--memory", "100GiB", "--", "echo", "started")

    assert (done.returncode, done.stdout) == (1, "")
    assert "the largest free slice is 79.2 GiB" in done.stderr


def test_a_slice_inside_a_slice_is_refused_in_words(vgpu: Vgpu) -> None:
    inner = [sys.executable, "-m", "jupyter_vgpu.cli", *QUARTER, "--", "true"]

    done = vgpu(*QUARTER, "--", *inner)

    assert done.returncode == 2
    assert "a slice inside a slice is not possible" in done.stderr


@without_a_driver
def test_without_a_driver_run_says_so_and_offers_the_simulation(vgpu: Vgpu, temporary: Path) -> None:
    done = vgpu("run", "--share", "1/4", "--", "echo", "started")

    assert (done.returncode, done.stdout) == (1, "")
    assert "jupyter vgpu run --simulate a100-80" in done.stderr
    assert list(temporary.iterdir()) == []


def test_an_agent_that_was_named_and_is_not_there_is_an_error(vgpu: Vgpu, tmp_path: Path) -> None:
    done = vgpu("run", "--agent", str(tmp_path), "--share", "1/4", "--", "echo", "started")

    assert (done.returncode, done.stdout) == (1, "")
    assert f"no node agent answers at {tmp_path}/hub.sock" in done.stderr


def test_a_misspelt_variable_starts_nothing(vgpu: Vgpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_VGPU_DEVICE", "0")

    done = vgpu(*QUARTER, "--", "echo", "started")

    assert (done.returncode, done.stdout) == (2, "")
    assert "environment: 'JUPYTER_VGPU_DEVICE' is not allowed; JUPYTER_VGPU_DEVICES is, if" in done.stderr
