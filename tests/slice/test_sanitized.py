"""The whole library under a sanitizer, preloaded into programs that take and give memory from many threads.

The C tests run its pure parts under the sanitizers; here are the hooks, with locks, tables and the simulated driver.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import LIB_DIR

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 900.0
PROGRAM_SECONDS = 600.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what to preload for the library with the address and undefined behaviour sanitizers in it."""
    build = tmp_path_factory.mktemp("sanitized")
    jobs = str(os.cpu_count() or 1)
    for words in (
        ["cmake", "-S", str(ROOT / "native"), "-B", str(build), "-DJVGPU_SANITIZE=ON"],
        ["cmake", "--build", str(build), "--target", "jupyter_vgpu", "--parallel", jobs],
    ):
        subprocess.run(words, check=True, timeout=BUILD_SECONDS)
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    return f"{runtime.stdout.strip()}:{build / 'src' / 'libjupyter_vgpu.so'}"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that compiles a C program against the simulated driver."""

    def compile_it(source: Path) -> Path:
        program = tmp_path_factory.mktemp("program") / source.stem
        flags = ["-std=gnu11", "-O1", f"-L{LIB_DIR / 'sim'}", "-l:libcuda.so.1", "-ldl", "-lpthread"]
        subprocess.run(["cc", "-o", program, source, *flags], check=True)
        return program

    return compile_it


@pytest.mark.parametrize(
    "words",
    [
        ["benchmarks/memory/random_operations.c", "20000", "8", "3"],
        ["tests/slice/grow_at_once.c", "pools", "100", "8"],
        ["tests/slice/grow_at_once.c", "graphs", "5", "8"],
    ],
    ids=["memory of all kinds", "pools that grow at once", "graphs that grow at once"],
)
def test_the_sanitizers_find_nothing_in_the_hooks(
    claim: Callable[..., Any], sanitized: str, compiled: Callable[[Path], Path], words: list[str]
) -> None:
    source, *arguments = words
    # What leaks is not looked for: the library keeps its tables until the process ends.
    environment = claim(2 << 30).environment(LD_PRELOAD=sanitized, ASAN_OPTIONS="detect_leaks=0")

    done = subprocess.run(
        [compiled(ROOT / source), *arguments],
        env=environment,
        input="\n\n",
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )

    assert done.stderr == ""
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2, "the program came to its end"
