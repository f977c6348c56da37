"""The browser's tests refuse a panel that is not the one of the sources: one such passed them for hours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.panel import what_is_stale

FILES = ("package.json", "static/remoteEntry.1.js", "static/style.js")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return the folders of a panel's sources, of what was built a minute later, and of what was installed of it."""
    sources, built, installed = (tmp_path / name for name in ("labextension", "built", "installed"))
    for name in ("src/index.ts", "src/__tests__/index.spec.ts", "style/index.css", "schema/panel.json"):
        write(sources / name, at=1_000)
    for name in FILES:
        write(built / name, at=1_060)
    shutil.copytree(built, installed)
    return sources, built, installed


def write(path: Path, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)
    os.utime(path, (at, at))


def test_a_panel_that_was_installed_as_it_was_built_will_do(folders: tuple[Path, Path, Path]) -> None:
    sources, built, installed = folders
    write(sources / "src" / "__tests__" / "index.spec.ts", at=2_000)

    copied = what_is_stale(*folders)
    shutil.rmtree(installed)
    installed.symlink_to(built)

    assert (copied, what_is_stale(*folders)) == ("", "")


def test_a_panel_that_nobody_built_is_refused(folders: tuple[Path, Path, Path]) -> None:
    (folders[1] / "package.json").unlink()

    assert what_is_stale(*folders) == "the panel is not built; `make labextension` builds it"


@pytest.mark.parametrize("source", ["src/index.ts", "style/index.css", "schema/panel.json"])
def test_a_panel_that_is_older_than_a_source_is_refused(folders: tuple[Path, Path, Path], source: str) -> None:
    write(folders[0] / source, at=2_000)

    assert what_is_stale(*folders) == f"the panel is older than its source {source}; `make labextension` builds it"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_there", [True, False], ids=["an older file", "a file that is missing"])
def test_an_installed_panel_that_is_another_is_refused(
    folders: tuple[Path, Path, Path], name: str, is_there: bool
) -> None:
    there = folders[2] / name
    there.unlink()
    if is_there:
        there.write_text("older")

    said = what_is_stale(*folders)

    assert f"is not the one that was built: {name} differs" in said
    assert "jupyter-builder develop --overwrite" in said
