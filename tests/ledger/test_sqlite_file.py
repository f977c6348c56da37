"""A ledger in a SQLite file that is taken away, replaced or written when the hub is killed."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_vgpu.ledger import Ledger, LedgerError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(file: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{file}")
    yield opened
    opened.close()


def note(ledger: Ledger, user: str) -> None:
    ledger.open_entry(user, "", user, "1/4 GPU", "node")


def users(ledger: Ledger) -> list[str]:
    return [entry.user for entry in ledger.open_entries()]


def test_a_file_that_was_taken_away_is_missed_and_nothing_is_lost_when_it_is_back(
    ledger: Ledger, file: Path, tmp_path: Path
) -> None:
    """Catches a bug where the hub went on writing into a file that had no name any more."""
    note(ledger, "ada")
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)

    for use in (lambda: note(ledger, "bob"), lambda: users(ledger)):
        with pytest.raises(LedgerError, match="cannot be used"):
            use()
    assert not file.exists()  # nor is an empty one made

    elsewhere.rename(file)
    assert users(ledger) == ["ada"]
    note(ledger, "bob")
    assert users(ledger) == ["ada", "bob"]


@pytest.mark.parametrize("other", ["a backup", "no database"])
def test_a_file_that_was_replaced_while_the_hub_runs_is_refused_and_left_alone(
    ledger: Ledger, file: Path, tmp_path: Path, other: str
) -> None:
    """SQLite would mend a backup with the log of the file that it replaced."""
    note(ledger, "ada")
    replacement, opened = tmp_path / "replacement", tmp_path / "opened"
    if other == "a backup":
        shutil.copy(file, replacement)
    else:
        replacement.write_text("Dear students,\n" * 1000)
    before = replacement.read_bytes()
    file.rename(opened)
    replacement.rename(file)

    for use in (lambda: note(ledger, "bob"), lambda: users(ledger)):
        with pytest.raises(LedgerError, match="another file is there now: put back the one that the hub opened"):
            use()

    assert file.read_bytes() == before
    opened.replace(file)
    assert users(ledger) == ["ada"]


def test_what_was_written_down_is_there_after_the_writer_was_killed(ledger: Ledger, file: Path) -> None:
    code = (
        "import os, signal, sys; from jupyter_vgpu.ledger import Ledger; ledger = Ledger(sys.argv[1]);"
        "[ledger.open_entry(f'user-{n}', '', 't', 'p', 'n') for n in range(20)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    ran = subprocess.run([sys.executable, "-c", code, f"sqlite:///{file}"], check=False, timeout=300)

    assert ran.returncode == -signal.SIGKILL
    assert users(ledger) == [f"user-{number}" for number in range(20)]


def test_what_lies_beside_the_file_is_for_its_owner_only_too(ledger: Ledger, file: Path) -> None:
    note(ledger, "ada")

    found = sorted(file.parent.glob(f"{file.name}*"))

    assert file in found
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
