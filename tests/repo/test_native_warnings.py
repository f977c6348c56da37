"""A compiler that warns of more than ours does must not stop an installation; our own tests stop at any warning."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands(build: Path, *settings: str) -> list[str]:
    """Return how each file of the native parts would be compiled."""
    subprocess.run(
        [*("cmake", "-S", ROOT / "native", "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"), *settings],
        # What a machine adds to every compilation is not what we ask for.
        env={name: value for name, value in os.environ.items() if name != "CFLAGS"},
        check=True,
        capture_output=True,
    )
    told = json.loads((build / "compile_commands.json").read_text())
    return [command["command"] for command in told if command["file"].endswith(".c")]


@pytest.mark.parametrize(
    ("settings", "is_error"),
    [
        pytest.param((), False, id="in an installation it is only said"),
        pytest.param(("-DJVGPU_WERROR=ON",), True, id="in our tests it is an error, everywhere"),
    ],
)
def test_a_warning(tmp_path: Path, settings: tuple[str, ...], is_error: bool) -> None:
    compiled = commands(tmp_path, *settings)

    assert len(compiled) > 100
    assert all("-Wall" in command for command in compiled)
    assert {"-Werror" in command.split() for command in compiled} == {is_error}


def test_headers_of_another_cuda_do_not_stop_an_installation(tmp_path: Path) -> None:
    (tmp_path / "cuda.h").write_text("#error another CUDA than ours\n")
    build = tmp_path / "build"

    commands(build, "-G", "Unix Makefiles", f"-DJVGPU_CUDA_HEADERS={tmp_path}")

    parts = re.findall(
        r"^tests/all: tests/CMakeFiles/(\w+)\.dir/all$", (build / "CMakeFiles" / "Makefile2").read_text(), re.M
    )
    assert "test_ledger" in parts
    assert "abi_check_cuda" not in parts
    assert "abi_check_cuda" in (build / "tests" / "CTestTestfile.cmake").read_text()
