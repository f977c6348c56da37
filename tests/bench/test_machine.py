"""What was measured, for the record: also from a copy of the tree without git or its history."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import machine


def test_without_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert machine.commit() == "unknown"


def test_without_a_history_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert machine.commit() == "unknown"


def test_the_source_is_told_by_what_is_in_it_and_by_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    (tmp_path / "native" / "src").mkdir(parents=True)
    (tmp_path / "native" / "src" / "meter.c").write_text("int x;\n")
    before = machine.source()

    (tmp_path / "native" / "src" / "meter.o").write_bytes(b"built")
    (tmp_path / "README.md").write_text("words\n")
    assert machine.source() == before

    (tmp_path / "native" / "src" / "meter.c").write_text("int y;\n")
    assert machine.source() != before
