"""A small teaching lab's day, with everything in it that the large one has; `make lab-day` lives that."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_SECONDS = 600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_SECONDS + 300)]

LAB = Path(__file__).resolve().parents[2] / "benchmarks" / "lab"


def test_a_day_on_which_the_hub_is_killed_breaks_no_promise() -> None:
    day = ["--users", "20", "--seconds", "25", "--kills", "1", "--boards", "2xa100-80", "--limit", str(LIMIT_SECONDS)]

    done = subprocess.run(
        [sys.executable, LAB / "day.py", *day], capture_output=True, text=True, timeout=LIMIT_SECONDS + 240, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"spawns (\d+), over-committed 0, leaked 0, rules broken 0, added p95 \d+ ms", last)
    assert found, last
    assert int(found[1]) >= 20
    assert "servers lost 0" in done.stdout


def test_on_paper_ten_thousand_users_on_a_thousand_nodes_are_promised_nothing_twice() -> None:
    done = subprocess.run(
        [sys.executable, LAB / "fleet.py"], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("over-committed 0") == 9


def test_a_rush_gives_everybody_what_they_came_for() -> None:
    done = subprocess.run(
        [sys.executable, LAB / "rush.py", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"(all \w+).* p50 .*\d ms, p95 .*\d ms, most", done.stdout) == [
        "all is",
        "all arrive",
        "all leave",
    ]
