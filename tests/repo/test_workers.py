"""A run that workers share keeps the rules of `tests/conftest.py`: tried on small runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
FAILS_ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_fails_once(number):
    seen = pathlib.Path({folder!r}) / f"seen-{name}-{{number}}"
    again = seen.exists()
    seen.touch()
    assert again
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with our rules and no tests; who leaves something behind is given a moment and not half a minute."""
    tests = tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    rules = CONFTEST.read_text()
    assert "GRACE_SECONDS = 30.0\n" in rules
    (tests / "conftest.py").write_text(rules.replace("GRACE_SECONDS = 30.0\n", "GRACE_SECONDS = 0.5\n"))
    return tests.parent


def run(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # What this run itself was told, and the worker that it is in, are nothing to that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *options, "tests"]
    return subprocess.run(
        command,
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )


@pytest.mark.parametrize(
    ("counts", "is_allowed"),
    [pytest.param((2, 1), True, id="three are allowed"), pytest.param((2, 2), False, id="four are not")],
)
def test_second_tries_are_counted_over_all_workers(checkout: Path, counts: tuple[int, int], is_allowed: bool) -> None:
    for name, count in zip("ab", counts, strict=True):
        text = FAILS_ONCE.format(folder=str(checkout), name=name, count=count)
        (checkout / "tests" / f"test_{name}.py").write_text(text)

    done = run(checkout, "--reruns", "1")

    assert f"{sum(counts)} passed, {sum(counts)} rerun" in done.stdout, done.stdout
    assert (done.returncode == 0) == is_allowed
    assert ("4 tests had to be tried again; at most 3 may" in done.stdout) != is_allowed


def test_what_is_left_behind_is_told_to_be_the_workers_that_left_it(checkout: Path) -> None:
    (checkout / "tests" / "test_leaves.py").write_text(
        "import os, pathlib, subprocess, tempfile\n"
        "def test_leaves():\n"
        "    pathlib.Path(tempfile.gettempdir(), 'a file').touch()\n"
        "    pid = subprocess.Popen(['sleep', '600']).pid\n"
        f"    pathlib.Path({str(checkout)!r}, 'pid').write_text(str(pid))\n"
        f"    pathlib.Path({str(checkout)!r}, 'leaver').write_text(tempfile.gettempdir())\n"
    )
    # The other worker looks at its own only once this one has left something.
    (checkout / "tests" / "test_tidy.py").write_text(
        "import pathlib, tempfile, time\n"
        "def test_tidies():\n"
        f"    while not pathlib.Path({str(checkout)!r}, 'leaver').exists():\n"
        "        time.sleep(0.01)\n"
        "    with tempfile.NamedTemporaryFile():\n"
        f"        pathlib.Path({str(checkout)!r}, 'tidier').write_text(tempfile.gettempdir())\n"
    )

    done = run(checkout)

    subprocess.run(["kill", (checkout / "pid").read_text()], check=True)
    leaver, tidier = (Path((checkout / name).read_text()) for name in ("leaver", "tidier"))
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert f"file {leaver}/a file" in done.stdout
    assert f"process {(checkout / 'pid').read_text()}: sleep 600" in done.stdout
    assert "ERROR tests/test_leaves.py::test_leaves" in done.stdout
    assert leaver != tidier
    assert leaver.parent == tidier.parent
    assert not leaver.exists()
    assert not tidier.exists()
