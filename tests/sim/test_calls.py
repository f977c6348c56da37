"""The list of calls that are asked of a GPU and of a simulated board, and how two answers are compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CALLS = BENCHMARKS / "sim" / "calls"
H200 = BENCHMARKS / "results" / "calls-2026-11-30-nvidia-h200.json"  # driver 580.159.04


def results(path: Path) -> dict[tuple[str, str, str], int | None]:
    """What was answered, by group, name and case."""
    return {(row["group"], row["name"], row["case"]): row["result"] for row in json.loads(path.read_text())}


def calls(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CALLS), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a simulated H200 answers."""
    out = tmp_path_factory.mktemp("calls") / "simulated.json"
    done = calls("run", out, "--simulate", "h200")
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_hundreds_of_calls_are_asked_and_none_ends_the_process(answers: Path) -> None:
    rows = json.loads(answers.read_text())

    assert len({row["name"] for row in rows if row["result"] != -1}) >= 200
    assert [row for row in rows if row["result"] is None] == []


def test_every_function_that_is_asked_for_exists(answers: Path) -> None:
    assert [row for row in json.loads(answers.read_text()) if row["result"] == -1] == []


def test_what_an_h200_answered_is_answered_or_has_a_reason(answers: Path) -> None:
    done = calls("compare", H200, answers)

    assert done.returncode == 0, done.stdout


def test_every_reason_stands_for_differences_from_the_h200(answers: Path) -> None:
    sys.path.insert(0, str(CALLS))
    try:
        from reasons import REASONS, reason_for
    finally:
        sys.path.remove(str(CALLS))
    theirs, ours = results(H200), results(answers)

    explained = {key: reason for key in theirs if (reason := reason_for(*key)) is not None}

    assert {key for key in explained if theirs[key] == ours[key]} == set()
    assert set(explained.values()) == {reason for *_, reason in REASONS}


def test_what_ended_the_process_there_is_an_error_here(answers: Path) -> None:
    ours = results(answers)
    ended = [key for key, result in results(H200).items() if result is None]

    assert len(ended) >= 10
    assert [key for key in ended if not ours[key]] == []


def one_row(path: Path, **changes: Any) -> Path:
    row = {"group": "memory", "name": "cuMemAlloc_v2", "case": "ok", "says": 0, "result": 0}
    path.write_text(json.dumps([row | changes]))
    return path


def test_the_same_answers_are_alike(tmp_path: Path) -> None:
    same = one_row(tmp_path / "same.json")

    done = calls("compare", same, same)

    assert (done.returncode, done.stdout) == (0, "1 of 1 calls answer alike\n")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"result": 2}, id="another result"),
        pytest.param({"result": None}, id="the end of the process"),
    ],
)
def test_a_difference_without_a_reason_is_told_and_fails(tmp_path: Path, changes: Any) -> None:
    done = calls("compare", one_row(tmp_path / "one.json"), one_row(tmp_path / "two.json", **changes))

    assert done.returncode == 1
    assert done.stdout.splitlines()[0].endswith("NO REASON IS KNOWN")
    assert done.stdout.splitlines()[-1] == "0 of 1 calls answer alike"


def test_a_call_that_only_one_was_asked_is_a_difference(tmp_path: Path) -> None:
    done = calls("compare", one_row(tmp_path / "one.json"), one_row(tmp_path / "two.json", case="another"))

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 of 2 calls answer alike"


def test_a_difference_that_is_meant_says_why(tmp_path: Path) -> None:
    meant = {"group": "functions", "name": "cuModuleLoadData", "case": "no module"}

    done = calls(
        "compare",
        one_row(tmp_path / "one.json", **meant, result=200),
        one_row(tmp_path / "two.json", **meant, result=0),
    )

    assert done.returncode == 0
    assert "any text is a module here" in done.stdout
