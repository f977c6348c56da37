"""The table: what is kept, what is done, what is met; and the list of experiments itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from governor.experiment import Sharing
from governor.rows import Row, Table, Target, line
from governor.summary import newest
from governor.table import experiments

SUMMARY = Path(__file__).resolve().parents[2] / "benchmarks" / "governor" / "summary.py"
HEAD = {"date": "2026-11-29", "card": "A Card", "driver": "1"}


def row(experiment: str = "two", name: str = "two: total", **more: Any) -> Row:
    told: dict[str, Any] = {"ours": 99.0, "native": 90.0, "unit": "%", "target": Target("at least", 98.5)}
    return Row(experiment, name, 2, **{**told, **more})


def measured(source: str = "abc", scale: float = 1.0, peers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"commit": "c0ffee", "source": source, "group": "saturated", "scale": scale, "peers_asked": list(peers)}


@pytest.mark.parametrize(
    ("target", "ours", "native", "met"),
    [
        pytest.param(Target("at least", 98.5), 98.5, None, True, id="just enough"),
        pytest.param(Target("at least", 98.5), 98.4, None, False, id="just not enough"),
        pytest.param(Target("at most", 6), 6.1, 9, False, id="too much"),
        pytest.param(Target("within", 25, 0.5), 24.4, None, False, id="below what it may be"),
        pytest.param(Target("within", 25, 0.5), 25.5, None, True, id="as far as it may be"),
        pytest.param(Target("at least", 0.99, of_native=True), 98, 100, False, id="less of native than it should be"),
        pytest.param(Target("at least", 0.99, of_native=True), 99, 100, True, id="as much of native as it should be"),
        pytest.param(Target("at least", 0.99, of_native=True), 99, None, False, id="nothing to compare with"),
        pytest.param(Target("at most", 6), None, 2, False, id="not measured"),
        pytest.param(Target("at most", 6), float("nan"), 2, False, id="nothing was there to be measured"),
    ],
)
def test_a_target_is_met_or_not(target: Target, ours: float | None, native: float | None, met: bool) -> None:
    assert row(ours=ours, native=native, target=target).is_met is met


def test_a_row_says_what_the_issue_asks_for() -> None:
    told = row(peers={"mps": 110.0}, runs=[98.0, 99.0, 99.5]).as_json()

    assert {"name", "tenants", "ours", "native", "peers", "ratio", "unit", "target", "met"} <= set(told)
    assert (told["ratio"], told["target"], told["met"]) == (1.1, "≥ 98.5", True)


def test_an_error_is_a_row_that_is_not_met(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.json", HEAD)

    table.add([row(ours=None, error="t1: ended with code 1")], measured())

    assert table.rows[0]["met"] is False
    assert "ended with code 1" in line(table.rows[0])
    assert not table.is_done("two", "abc", 1.0, [])


def test_what_is_done_for_this_source_is_done_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    Table(path, HEAD).add([row()], measured("abc", 0.5, ("mps",)))

    table = Table(path, HEAD)

    assert table.is_done("two", "abc", 0.5, ["mps"])
    assert table.is_done("two", "abc", 0.2, [])
    assert not table.is_done("two", "def", 0.5, [])
    assert not table.is_done("two", "abc", 1.0, [])
    assert not table.is_done("two", "abc", 0.5, ["mps", "peer"])
    assert not table.is_done("four", "abc", 0.5, [])


def test_an_experiment_measured_again_takes_the_place_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    table = Table(path, HEAD)
    table.add([row("two", "two: total"), row("two", "two: parts")], measured())
    table.add([row("four", "four: total")], measured())

    table.add([row("two", "two: total", ours=97.0)], measured("def"))

    kept = json.loads(path.read_text())["rows"]
    assert [(one["name"], one["ours"]) for one in kept] == [("two: total", 97.0), ("four: total", 99.0)]


@pytest.mark.parametrize(("card", "rows"), [("A Card", 1), ("Another", 0)])
def test_rows_of_an_earlier_table_are_taken_over_if_they_are_of_this_card(tmp_path: Path, card: str, rows: int) -> None:
    Table(tmp_path / "old.json", {**HEAD, "card": card}).add([row()], measured())

    table = Table(tmp_path / "new.json", HEAD, earlier=tmp_path / "old.json")

    assert len(table.rows) == rows


def test_the_newest_table_of_a_real_card_is_the_one_that_is_shown() -> None:
    names = ["governor-2026-12-02-simulated-h200.json", "governor-2026-11-29-a.json", "governor-2026-12-01-b.json"]

    assert newest([Path(name) for name in names]) == Path("governor-2026-12-01-b.json")
    assert newest([]) is None


def test_the_summary_ends_with_how_many_are_met(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    table = Table(path, HEAD)
    table.add([row(), row(name="two: parts", ours=2.0)], measured())
    table.note_skipped({"two NCCL tenants": "needs two GPUs"})

    # As on a bare machine: nothing but Python.
    done = subprocess.run([sys.executable, "-I", "-S", SUMMARY, path], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "1 of 2 met"
    assert "not run: two NCCL tenants: needs two GPUs" in done.stdout


def test_each_experiment_and_each_row_has_a_name_of_its_own() -> None:
    listed = experiments()
    lines = [one.name for experiment in listed if isinstance(experiment, Sharing) for one in experiment.lines]

    assert [name for name, count in Counter(one.name for one in listed).items() if count > 1] == []
    assert [name for name, count in Counter(lines).items() if count > 1] == []


def test_no_experiment_promises_more_than_there_is() -> None:
    # All variants of an experiment hold their claims at once.
    for experiment in experiments():
        if isinstance(experiment, Sharing):
            tenants = [tenant for variant in experiment.variants.values() for tenant in variant]
            assert sum(tenant.share for tenant in tenants) <= 1, experiment.name
            assert all(tenant.share <= tenant.ceiling <= 1 for tenant in tenants), experiment.name


def test_each_row_is_read_off_runs_that_there_are() -> None:
    for experiment in experiments():
        if isinstance(experiment, Sharing):
            assert {one.variant for one in experiment.lines} == set(experiment.variants), experiment.name
