"""What a slice does to an environment."""

from __future__ import annotations

from jupyter_vgpu.model import Edits

EDITS = Edits(env={"A": "new"}, preload=["/lib/ours.so"], library_path=["/lib/sim"])


def test_preload_and_path_come_before_what_is_there() -> None:
    merged = EDITS.applied_to({"LD_PRELOAD": "/lib/theirs.so", "LD_LIBRARY_PATH": "/opt/a:/opt/b"})

    assert merged["LD_PRELOAD"] == "/lib/ours.so:/lib/theirs.so"
    assert merged["LD_LIBRARY_PATH"] == "/lib/sim:/opt/a:/opt/b"


def test_preloads_separated_by_spaces_are_kept() -> None:
    merged = EDITS.applied_to({"LD_PRELOAD": "/lib/one.so /lib/two.so"})

    assert merged["LD_PRELOAD"] == "/lib/ours.so:/lib/one.so:/lib/two.so"


def test_other_variables_stay_and_ours_win() -> None:
    before = {"A": "old", "HOME": "/home/a"}

    merged = EDITS.applied_to(before)

    assert (merged["A"], merged["HOME"]) == ("new", "/home/a")
    assert before == {"A": "old", "HOME": "/home/a"}


def test_applying_twice_is_applying_once() -> None:
    once = EDITS.applied_to({"LD_PRELOAD": "/lib/theirs.so"})

    assert EDITS.applied_to(once) == once


def test_no_preload_leaves_the_variable_alone() -> None:
    assert Edits(env={"A": "1"}).applied_to({}) == {"A": "1"}
