"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# STYLE.md asks for about 400; a tenth more is where a file has to be split.
MOST_LINES = 450
CODE = {".py", ".c", ".h", ".S", ".ts", ".tsx", ".sh"}
OURS = ("jupyter_vgpu/", "native/", "labextension/", "tests/", "demo/", "tools/", "benchmarks/", "binder/")


def files_of_the_repository() -> list[Path]:
    """Return what git knows or would add; build products are not among it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [path for name in listed if (path := ROOT / name).is_file()]


def test_no_room_is_larger_than_a_reader_can_hold() -> None:
    too_long = {}
    for path in files_of_the_repository():
        name = str(path.relative_to(ROOT))
        if path.suffix in CODE and name.startswith(OURS):
            lines = len(path.read_text().splitlines())
            if lines > MOST_LINES:
                too_long[name] = lines

    assert too_long == {}, f"more than {MOST_LINES} lines: split by meaning"


def test_every_target_of_the_makefile_is_in_its_help() -> None:
    phony = set()
    for line in (ROOT / "Makefile").read_text().splitlines():
        if line.startswith(".PHONY:"):
            phony |= set(line.split()[1:])
    helped = set(re.findall(r"^  make (\S+)", _make("help"), flags=re.MULTILINE))

    # Set-up targets are steps of the others.
    assert phony - helped == {"setup-port", "setup-build", "setup-demo", "setup-test", "setup-slow"}


def test_make_alone_shows_the_help() -> None:
    assert _make() == _make("help")


def test_the_first_screen_of_the_readme_has_exactly_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text().partition("\n## ")[0]
    assert len(first_screen.splitlines()) < 30

    commands = re.findall(r"^    (\S.*)$", first_screen, flags=re.MULTILINE)

    assert [command.split("#")[0].strip() for command in commands] == ["make demo", "make test"]


def test_ci_calls_make_test_and_then_make_test_slow() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]

    assert steps == ["make test", "make test-slow"]


@pytest.mark.parametrize(
    "page", sorted((ROOT).glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target and target[0] != "#"]

    dead = [target for target in targets if not (page.parent / target.split("#")[0]).exists()]

    assert dead == []


def _make(*targets: str) -> str:
    return subprocess.run(
        ["make", "--no-print-directory", *targets], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
