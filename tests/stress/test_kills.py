"""Whatever dies, the others go on; however many start, each is let in. Simulated board.

How long anyone waits is measured by `benchmarks/kills.py`, on a quiet machine; here only that nobody waits for ever,
and that nothing is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = os.environ.get("JVGPU_STRESS_KILLS", "1000")
STARTS = 256
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def test_random_kills_beside_neighbours_at_work_leave_nothing_and_stop_nobody() -> None:
    """Catches a bug where a lock left behind by SIGKILL hung the others for minutes (CASES 24)."""
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--kills", KILLS, "--seconds", "240"], capture_output=True, text=True, timeout=500
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "left: 0 bytes, 0 processes" in done.stdout


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory, compile_client: Callable[[Path, Path], Path]) -> Path:
    return compile_client(Path(__file__).with_name("starter.c"), tmp_path_factory.mktemp("starter"))


def test_256_programs_start_at_once(stressed: Any, starter: Path) -> None:
    """CASES 27: each is let in, has a slot, and gives it back."""
    programs = [
        subprocess.Popen([starter], env=stressed.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(STARTS)
    ]
    for each in programs:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    answers = [each.stdout.readline().split() for each in programs if each.stdout]
    attached = {process["pid"] for process in stressed.usage()["processes"]}
    for each in programs:
        each.communicate("\n")

    assert [answer[0] for answer in answers] == ["0"] * STARTS
    assert attached == {each.pid for each in programs}
    wait_until(stressed.is_empty, "nothing is left of them")
