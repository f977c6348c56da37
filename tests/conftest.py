"""What all tests share: the GPU question, and the rule that a test run leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A property holds or it does not; how long that takes to find out on a busy machine says nothing about it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

RUN_MARK = "JUPYTER_VGPU_TEST_RUN"
SHARED_MEMORY = Path("/dev/shm")
GRACE_SECONDS = 30.0
MOST_SECOND_TRIES = 3
# pytest's own folder, and a file that Chromium sometimes forgets; both go with the run's folder.
NOT_OURS = ("pytest-of-", ".org.chromium.Chromium.")


def pytest_configure(config: pytest.Config) -> None:
    """Give this run a folder and a mark of its own, so that what it leaves behind is known for its own."""
    scratch = Path(tempfile.mkdtemp(prefix="jvgpu-test-"))
    os.environ["TMPDIR"] = str(scratch)
    os.environ[RUN_MARK] = uuid.uuid4().hex
    tempfile.tempdir = None
    config.stash[_scratch] = scratch
    # A shell ignores them in what it starts in the background, and so would every program that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_unconfigure(config: pytest.Config) -> None:
    scratch = config.stash.get(_scratch, None)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_is_there = Path("/dev/nvidiactl").exists()
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / "gpu"):
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and not gpu_is_there:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU: there is no /dev/nvidiactl"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which many tests needed the second try that CI gives them: one is bad luck, many are a fault."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    tried_again = reporter.stats.get("rerun", []) if reporter is not None else []
    if len(tried_again) > MOST_SECOND_TRIES and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\n{len(tried_again)} tests had to be tried again; at most {MOST_SECOND_TRIES} may")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the run if it leaves a process, a file in the temporary folder or a piece of shared memory."""
    scratch = request.config.stash[_scratch]
    shared_memory_before = _names(SHARED_MEMORY)

    yield

    # What was told to end by the last fixture may still be at it.
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := _left_behind(scratch, shared_memory_before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "left behind by the tests:\n  " + "\n  ".join(left)


_scratch = pytest.StashKey[Path]()


def _left_behind(scratch: Path, shared_memory_before: set[str]) -> list[str]:
    """Return what there is of this run's, in words."""
    left = [f"process {process}" for process in _processes_of_this_run(str(scratch))]
    left += [f"file {scratch / name}" for name in _names(scratch) if not name.startswith(NOT_OURS)]
    left += [f"shared memory {name}" for name in _names(SHARED_MEMORY) - shared_memory_before if "vgpu" in name]
    return left


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


def _processes_of_this_run(scratch: str) -> list[str]:
    """Return pid and command of each process that carries this run's mark or works in its folder.

    A server started by a hub has lost the environment's mark, but its files lie in the run's folder.
    """
    mark = f"{RUN_MARK}={os.environ[RUN_MARK]}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue  # ended meanwhile, or another user's
        if mark in environment.split(b"\0") or scratch.encode() in command or scratch.encode() in environment:
            found.append(f"{entry.name}: {command.decode(errors='replace')}")
    return found
