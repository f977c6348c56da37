"""What is read off the runs of the meter's harness, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from meter import table
from meter.cases import ALL
from meter.one_launch import said_at, told_after
from meter.summary import cost_rows

LOOKS = [(0.5, [0.0, 0.2]), (1.5, [0.0, 0.7]), (2.5, [3.9, 1.2]), (3.5, [4.0, 1.3])]


def test_no_two_cases_make_the_same_row() -> None:
    """A row is known by its name and tenants: another case's would be taken for it and never measured."""
    rows = [
        (name, case.tenants, case.neighbours) for cases in ALL.values() for case in cases() for name in case.row_names
    ]

    assert len(rows) == len(set(rows))


@pytest.mark.parametrize(
    ("seconds", "place", "said"), [(0.1, 0, 0.0), (1.7, 1, 0.7), (2.5, 0, 3.9), (9.0, 0, 4.0)], ids=str
)
def test_what_the_meter_said_at_a_moment_is_its_last_word_until_then(seconds: float, place: int, said: float) -> None:
    assert said_at(LOOKS, seconds, place) == said


def test_a_meter_is_late_by_the_time_from_the_end_to_its_first_right_word() -> None:
    assert told_after(LOOKS, end=2.0, known=4.0, target=0.05) == pytest.approx(0.5)
    assert told_after(LOOKS, end=2.0, known=4.0, target=0.01) == pytest.approx(1.5)
    assert told_after(LOOKS, end=2.0, known=8.0, target=0.05) is None


def test_a_meter_that_was_right_before_the_end_is_not_late() -> None:
    assert told_after(LOOKS, end=3.0, known=4.0, target=0.05) == 0


def row(**more: Any) -> dict[str, Any]:
    return {"case": "a case", "tenants": 2, "neighbours": 1, "error": -0.0123, "target": 0.05, "met": True, **more}


def test_a_row_shows_how_sure_its_truth_is() -> None:
    assert table.line(row(truth_spread=0.004)).split() == ["a", "case", "2+1", "-1.23%", "±", "0.40%", "5%", "met"]


def test_a_row_of_an_earlier_day_is_shown_without() -> None:
    assert table.line(row()).split() == ["a", "case", "2+1", "-1.23%", "5%", "met"]
    assert (table.others(row()), table.clocks(row())) == ("", "")


@pytest.mark.parametrize(("seconds", "shown"), [(1.234, "1.23 s 2 s met"), (None, "never 2 s NOT MET")], ids=str)
def test_who_lies_is_shown_with_the_seconds_until_that_was_known(seconds: float | None, shown: str) -> None:
    line = table.line(row(flagged_seconds=seconds, target=2.0, met=seconds is not None))

    assert line.split()[3:] == shown.split()


def test_what_the_meter_costs_is_read_off_equal_tenants_and_lone_ones() -> None:
    rows = [
        {"group": "alone", "name": "alone, no ceiling: gpt", "ratio": 0.996},
        {"group": "alone", "name": "alone: switches of other threads, beyond native", "ratio": 0.0},
        {"group": "saturated", "name": "saturated, 2 equal: total", "ratio": 1.09},
        {"group": "saturated", "name": "saturated, 2 equal: worst part", "ratio": 1.1},
        {"group": "saturated", "name": "saturated, 4 equal: total", "ratio": None},
        {"group": "training", "name": "gpt 3:1: total", "ratio": 0.98},
        {"group": "training", "name": "2 × mlp, equal: total", "ratio": 0.98},
        {"group": "small", "name": "16 of 132 SMs: total", "ratio": 0.9},
    ]

    found = cost_rows({"rows": rows})

    assert [(each["name"], each["met"]) for each in found] == [
        ("alone, no ceiling: gpt", False),
        ("saturated, 2 equal: total", True),
        ("2 × mlp, equal: total", False),
    ]


def test_honest_tenants_that_were_accused_are_shown() -> None:
    assert (
        table.others(row(others_errors={"nvml": -0.7}, wrongly_flagged={0: "said", 2: "said"}))
        == "nvml -70%, flagged and honest: tenant 0, 2"
    )
