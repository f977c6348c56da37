"""The governor's benchmark on a simulated board: its shape, not its figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import pytest
from governor.experiment import Sharing
from governor.table import experiments

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "governor" / "run.py"
WAIT_SECONDS = 120.0
# The sources may change meanwhile, where somebody works on them.
SHORT = ("--simulate", "h200", "--scale", "0.2", "--source", "of-this-test")
WANTED = ("saturated 2 equal", "a cell beside 1 × 20 us", "burn, resnet and mlp")
MATCH = "^({})$".format("|".join(WANTED))


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False, timeout=500)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Yield a folder with a short name: sockets lie in it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def processes_of(scratch: Path) -> list[int]:
    """Return the processes whose command or environment names a folder: tenants, agents, the benchmark itself."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue  # ended meanwhile, or another user's
            if str(scratch).encode() in told:
                found.append(int(entry.name))
    return found


def wait_until_nobody_is_left(scratch: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while (left := processes_of(scratch)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_the_table_is_complete_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "table.json"

    done = run(*SHORT, "--match", MATCH, "--mps", "--out", out)

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert (told["card"], told["driver"]) == ("simulated h200", "simulated")
    chosen = [one for one in experiments() if isinstance(one, Sharing) and one.name in WANTED]
    assert [row["name"] for row in told["rows"]] == [line.name for one in chosen for line in one.lines]
    for row in told["rows"]:
        assert row["error"] == ""
        assert all(isfinite(row[arm]) and row[arm] >= 0 for arm in ("ours", "native")), row
        assert row["peers"].keys() == {"mps"} and isfinite(row["peers"]["mps"]), row
        assert len(row["runs"]) == 3
        assert row["commit"] and row["source"] and row["group"]
        assert {"seconds", "unit_us", "had", "native_had"} <= row["detail"].keys()
        assert len(row["detail"]["had"]) == row["tenants"]
    met = sum(row["met"] for row in told["rows"])
    assert f"{met} of {len(told['rows'])} met" in done.stdout

    again = run(*SHORT, "--match", MATCH, "--mps", "--out", out)

    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(out.read_text()) == told, "an experiment that is done was run again"


def test_what_one_does_to_another_is_measured(tmp_path: Path) -> None:
    """Priorities, an illegal access (CASES 40), launches of two seconds (CASES 39)."""
    out = tmp_path / "table.json"

    done = run(*SHORT, "--only", "priorities", "--only", "cases", "--out", out)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert Counter(row["experiment"] for row in rows) == {"priority classes": 2, "2 s launches": 3, "illegal access": 2}
    for row in rows:
        assert row["error"] == ""
        assert isfinite(row["ours"]) and row["ours"] >= 0, row


def test_what_cannot_be_run_here_is_said_and_not_counted(tmp_path: Path) -> None:
    out = tmp_path / "table.json"

    done = run(*SHORT, "--match", "^(two NCCL tenants|hook)$", "--out", out)

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert "two GPUs" in told["skipped"]["two NCCL tenants"]
    assert [row["experiment"] for row in told["rows"]] == ["hook"]


def test_a_budget_that_is_too_small_begins_nothing(tmp_path: Path) -> None:
    done = run(*SHORT, "--match", MATCH, "--budget", "1", "--out", tmp_path / "table.json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "out of budget: 3 experiments are left" in done.stdout


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_who_ends_the_benchmark_ends_all_of_it(tmp_path: Path, scratch: Path, how: signal.Signals) -> None:
    benchmark = subprocess.Popen(
        [sys.executable, RUN, "--simulate", "h200", "--match", "saturated 4 equal", "--out", tmp_path / "table.json"],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while len(processes_of(scratch)) < 1 + 1 + 8 and time.monotonic() < deadline and benchmark.poll() is None:
        time.sleep(0.1)  # the benchmark, the agent, and four tenants in each of two arms
    assert len(processes_of(scratch)) >= 1 + 1 + 8

    benchmark.send_signal(how)

    benchmark.wait(WAIT_SECONDS)
    wait_until_nobody_is_left(scratch)
    if how is signal.SIGTERM:
        assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--simulate", "h2000"], "known boards are", id="an unknown board"),
        pytest.param(["--match", "("], "no regular expression", id="no regular expression"),
        pytest.param(["--match", "no such thing"], "leave no experiment", id="nothing that matches"),
        pytest.param(["--scale", "0"], "--scale", id="no time at all"),
        pytest.param(["--peer-env", "A=1"], "none is named", id="settings of nobody"),
        pytest.param(["--peer-preload", "/nowhere.so"], "there is no file", id="a library that is not there"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(arguments: list[str], told: str) -> None:
    done = run("--simulate", "h200", *arguments)

    assert done.returncode != 0
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
