"""Threads that take memory at the same moment: what is charged is what the driver has reserved. Simulated board."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

# Of eight threads each takes 2 MiB in a round; a stale answer of the driver's is seen as long as nobody asks anew, so
# a pool is used in one round only, and what graphs have is looked at after few.
THREADS = 8
ROUNDS = {"pools": 100, "graphs": 5}
TIMES = {"pools": 10, "graphs": 60}


@pytest.fixture(scope="module")
def grow_at_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `grow_at_once.c`, compiled."""
    program = tmp_path_factory.mktemp("grow") / "grow_at_once"
    source = Path(__file__).with_name("grow_at_once.c")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-L{SIMULATED_DRIVER_DIR}", "-l:libcuda.so.1", "-lpthread"]
    subprocess.run([shutil.which("cc") or "gcc", "-o", program, source, *flags], check=True)
    return program


@pytest.fixture
def grown(ten_gib: Any, grow_at_once: Path) -> Iterator[Callable[[str], tuple[int, int]]]:
    """Return a function that runs the program and says what the driver has reserved then, and what is charged."""
    running: list[subprocess.Popen[str]] = []

    def grow(what: str) -> tuple[int, int]:
        process = subprocess.Popen(
            [grow_at_once, what, str(ROUNDS[what]), str(THREADS)],
            env=ten_gib.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "start\n"
        process.stdin.write("\n")
        process.stdin.flush()
        reserved = int(process.stdout.readline())
        charged = next(
            each["devices"][0]["memory_bytes"] for each in ten_gib.usage()["processes"] if each["pid"] == process.pid
        )
        process.communicate("\n")
        return reserved, charged

    yield grow
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("what", ROUNDS)
def test_what_threads_take_at_once_is_charged_whole(grown: Callable[[str], tuple[int, int]], what: str) -> None:
    """Catches a bug where the driver's answer to a slower thread, older than another's allocation, was charged last."""
    outcomes = [grown(what) for _ in range(TIMES[what])]

    assert [charged - reserved for reserved, charged in outcomes] == [0] * TIMES[what]
    assert {reserved for reserved, _ in outcomes} == {ROUNDS[what] * THREADS * (2 << 20)}
