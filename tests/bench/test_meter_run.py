"""The meter's harness on a simulated board: its shape, not its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from math import isfinite
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "meter" / "run.py"
SHORT = ("--simulate", "h200", "--tenants", "1", "--commit", "of-this-test", "--seconds", "0.5")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False, timeout=500)


def test_each_kind_of_row_is_measured_and_none_twice(tmp_path: Path) -> None:
    matches = ("500 us", "arguments: 100 us to", "first launch", "usage zero")
    wanted = [word for match in matches for word in ("--match", match)]

    done = run(*SHORT, *wanted, "--out", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    rows = json.loads(path.read_text())["rows"]
    assert {(row["case"], row["neighbours"]) for row in rows} == {
        ("500 us launches", 0),
        ("arguments: 100 us to 1 ms", 0),
        *((f"first launch, 4 s, {when}", neighbours) for when in ("half-way", "after it") for neighbours in (0, 1)),
        *(("usage zero: flagged after", neighbours) for neighbours in (0, 1)),
    }
    for row in rows:
        if row["quantity"] == "gpu_time":
            assert row["alone_before_us"][0] > 0 and row["alone_after_us"][0] > 0
            assert isfinite(row["error"]) and row["truth_spread"] >= 0
    assert done.stdout.splitlines()[-1].endswith(f"of {len(rows)} met")

    again = run(*SHORT, *wanted, "--out", tmp_path)

    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(path.read_text())["rows"] == rows


def test_functions_that_alternate_over_many_streams_are_charged_what_they_have(tmp_path: Path) -> None:
    tenants = ("--tenants", "2", "--tenants", "4")

    done = run(*SHORT, *tenants, "--match", "3 functions on 16 streams", "--seconds", "1.5", "--out", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    rows = json.loads(path.read_text())["rows"]
    assert [row["tenants"] for row in rows] == [1, 2, 4]
    for row in rows:
        assert abs(row["error"]) < row["target"], row
        assert row["wrongly_flagged"] == {}


def test_rows_that_a_simulated_board_cannot_do_are_named(tmp_path: Path) -> None:
    done = run(*SHORT, "--only", "nested", "--out", tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a simulated board does not have") == 2


def test_options_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    done = run("--match", "no such row", "--out", tmp_path)

    assert done.returncode == 2
    assert "--match" in done.stderr and "`--list` names them" in done.stderr
