"""The whole library under a sanitizer, preloaded into programs that take memory and launch from many threads.

The C tests run its pure parts under the sanitizers; here are the hooks, with locks, tables and the simulated driver.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 900.0
PROGRAM_SECONDS = 600.0
THREADS = 6
# The thread sanitizer wants its memory where the host kernel's randomisation may put something else.
NOT_MOVED = ["setarch", "--addr-no-randomize", "env"]

pytestmark = pytest.mark.slow


def preload(build: Path, sanitizer: str, runtime: str) -> str:
    """Return what to preload for the library with a sanitizer in it, which is compiled into the folder `build`."""
    jobs = str(os.cpu_count() or 1)
    for words in (
        ["cmake", "-S", str(ROOT / "native"), "-B", str(build), f"-DJVGPU_SANITIZE={sanitizer}"],
        ["cmake", "--build", str(build), "--target", "jupyter_vgpu", "--parallel", jobs],
    ):
        subprocess.run(words, check=True, timeout=BUILD_SECONDS)
    found = subprocess.run(["cc", f"-print-file-name={runtime}"], check=True, capture_output=True, text=True)
    return f"{found.stdout.strip()}:{build / 'src' / 'libjupyter_vgpu.so'}"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what to preload for the address and undefined behaviour sanitizers."""
    return preload(tmp_path_factory.mktemp("addresses"), "ON", "libasan.so")


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what to preload for the thread sanitizer."""
    return preload(tmp_path_factory.mktemp("threads"), "THREAD", "libtsan.so")


def room(source: str) -> int:
    """Return the bytes of a slice for a program: one is refused now and then, the other never."""
    return 2 << 30 if "random" in source else 10 << 30


def finds_nothing(command: list[Any], environment: dict[str, str]) -> None:
    """Run a program to its end, and expect no word of a sanitizer."""
    done = subprocess.run(
        command, env=environment, input="\n\n", capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )

    came_to_its_end = done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert came_to_its_end and done.stderr == "", f"{done.returncode}: {done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "words",
    [
        ["benchmarks/memory/random_operations.c", "20000", "8", "3"],
        ["tests/slice/grow_at_once.c", "pools", "100", "8"],
        ["tests/slice/grow_at_once.c", "graphs", "5", "8"],
    ],
    ids=["memory of all kinds", "pools that grow at once", "graphs that grow at once"],
)
def test_the_address_sanitizer_finds_nothing_in_the_hooks(
    claim: Callable[..., Any], addresses: str, compiled: Callable[[Path], Path], words: list[str]
) -> None:
    source, *arguments = words
    # What leaks is not looked for: the library keeps its tables until the process ends.
    environment = claim(room(source)).environment(LD_PRELOAD=addresses, ASAN_OPTIONS="detect_leaks=0")

    finds_nothing([compiled(ROOT / source), *arguments], environment)


@pytest.mark.parametrize(
    "words",
    [
        ["benchmarks/memory/random_operations.c", "20000", "8", "3", "nothing-launched"],
        ["tests/slice/grow_at_once.c", "pools", "100", "8"],
    ],
    ids=["memory of most kinds", "pools that grow at once"],
)
def test_the_thread_sanitizer_finds_no_race_among_those_who_take_memory(
    claim: Callable[..., Any], threads: str, compiled: Callable[[Path], Path], words: list[str]
) -> None:
    source, *arguments = words
    environment = claim(room(source)).environment(LD_PRELOAD=None)
    finds_nothing([*NOT_MOVED, f"LD_PRELOAD={threads}", compiled(ROOT / source), *arguments], environment)


@pytest.mark.parametrize("launch_us", ["20", "3000"], ids=["short launches", "launches longer than a turn"])
@pytest.mark.parametrize("ceiling", ["1", "3/5"], ids=["free", "under a ceiling"])
@pytest.mark.parametrize("neighbours", [0, 1], ids=["alone", "beside another"])
def test_the_thread_sanitizer_finds_no_race_among_those_who_launch(
    claim: Callable[..., Any],
    threads: str,
    compiled: Callable[[Path], Path],
    neighbours: int,
    ceiling: str,
    launch_us: str,
) -> None:
    """Catches counts that were lost between threads: a launch could be charged twice."""
    program = compiled(ROOT / "tests/slice/launch_at_once.c")
    beside = claim(1 << 30, tenant="bob")
    others = [
        subprocess.Popen(
            [program, "1000000000", "1", launch_us],
            env=beside.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(neighbours)
    ]
    try:
        for other in others:
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()
        environment = claim(1 << 30, share="1/2", ceiling=ceiling).environment(LD_PRELOAD=None)
        launches = str(600000 // int(launch_us) // THREADS)

        finds_nothing([*NOT_MOVED, f"LD_PRELOAD={threads}", program, launches, str(THREADS), launch_us], environment)
    finally:
        for other in others:
            other.kill()
            other.communicate()
