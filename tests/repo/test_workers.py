"""A run that workers share keeps the rules of `tests/conftest.py`: tried on small runs of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import wait_until

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


# Begins to look for ports where any other may, and keeps what it got until its input ends.
TAKES_PORTS = """
import secrets, sys
secrets.randbelow = lambda count: 0
from harness.ports import free_ports
print(*free_ports(150), flush=True)
sys.stdin.read()
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


def start(checkout: Path, *options: str) -> subprocess.Popen[str]:
    # What this run itself was told, and the worker that it is in, are nothing to that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Of all that is installed here it needs two; the others take it three seconds of a processor.
    plugins = ("-p", "xdist", "-p", "rerunfailures", "-p", "no:cacheprovider")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugins, "-n", "2", *options, "tests"],
        cwd=checkout,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(checkout: Path, *options: str) -> tuple[int, str]:
    """Return the exit code and what was said."""
    process = start(checkout, *options)
    said, _ = process.communicate(timeout=480)
    return process.returncode, said


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("counts", "is_allowed"),
    [pytest.param((2, 1), True, id="three are allowed"), pytest.param((2, 2), False, id="four are not")],
)
def test_second_tries_are_counted_over_all_workers(checkout: Path, counts: tuple[int, int], is_allowed: bool) -> None:
    for name, count in zip("ab", counts, strict=True):
        text = FAILS_ONCE.format(folder=str(checkout), name=name, count=count)
        (checkout / "tests" / f"test_{name}.py").write_text(text)

    code, said = run(checkout, "--reruns", "1")

    assert f"{sum(counts)} passed, {sum(counts)} rerun" in said, said
    assert (code == 0) == is_allowed
    assert ("4 tests had to be tried again; at most 3 may" in said) != is_allowed


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

    _, said = run(checkout)

    pid = int((checkout / "pid").read_text())
    leaver, tidier = (Path((checkout / name).read_text()) for name in ("leaver", "tidier"))
    assert "2 passed, 1 error" in said, said
    assert f"file {leaver}/a file" in said
    assert f"process {pid}: sleep 600" in said
    assert "ERROR tests/test_leaves.py::test_leaves" in said
    assert leaver != tidier
    assert leaver.parent == tidier.parent
    assert not is_alive(pid)
    assert not leaver.exists()
    assert not tidier.exists()


def test_an_interrupted_run_leaves_nothing_behind(checkout: Path) -> None:
    """Catches hubs and agents that went on: an interrupted worker is given no time for its fixtures' ends."""
    (checkout / "tests" / "test_long.py").write_text(
        "import os, pathlib, subprocess, tempfile, time\n"
        "def test_takes_long():\n"
        "    pid = subprocess.Popen(['sleep', '600'], start_new_session=True).pid\n"
        f"    new = pathlib.Path({str(checkout)!r}, 'new')\n"
        "    new.write_text(f'{pid} {os.getpid()} {tempfile.gettempdir()}')\n"
        f"    new.rename({str(checkout / 'begun')!r})\n"
        "    time.sleep(600)\n"
    )
    process = start(checkout)
    wait_until((checkout / "begun").exists, "the test begins", 240)
    pid, worker, scratch = (checkout / "begun").read_text().split()

    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=240)

    assert process.returncode == 2, said
    assert not is_alive(int(pid))
    assert not is_alive(int(worker))
    assert not Path(scratch).exists()


def test_no_two_processes_are_given_one_port_whichever_runs_they_are_of() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{CONFTEST.parent / 'lib'}:{os.environ['PYTHONPATH']}"}
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKES_PORTS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]

    given = [taker.stdout.readline().split() for taker in takers if taker.stdout is not None]

    for taker in takers:
        taker.communicate()
    assert [len(ports) for ports in given] == [150] * 3
    assert len({port for ports in given for port in ports}) == 450
