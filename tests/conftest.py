"""What all tests share: the GPU question, who may run beside whom, and the rule that a run leaves nothing behind.

Several workers may share a run (`pytest -n 2`): each has a folder and a mark of its own and answers for what it leaves.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A property holds or it does not; how long that takes to find out on a busy machine says nothing about it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

RUN_MARK = "JUPYTER_VGPU_TEST_RUN"
SHARED_MEMORY = Path("/dev/shm")
STARTUP = str(Path(__file__).parent / "lib" / "startup")  # what it does: sitecustomize.py there
GRACE_SECONDS = 30.0
MOST_SECOND_TRIES = 3
# pytest's own folder, and a file that Chromium sometimes forgets; both go with the run's folder.
NOT_OURS = ("pytest-of-", ".org.chromium.Chromium.")


# Tests of a file stay together anyway; those of the files and folders of a line all go to one worker. Some may not be
# there twice at a time, as the demo of this checkout; others share a hub or a server, which every worker that had one
# of them would start for itself.
TOGETHER = (
    ("tests/browser/test_panel", "tests/browser/test_applications", "tests/browser/test_stream"),
    ("tests/browser/", "tests/demo/test_demo.py"),
    ("tests/hub/test_hub.py", "tests/hub/test_hostile_input", "tests/hub/test_orphans", "tests/hub/test_database_away"),
    ("tests/service/",),
    ("tests/server/",),
    ("tests/nodes/",),
)
# What takes a worker a minute and more begins first: at the end of a run the others would stand about.
LONG = (*chain(*TOGETHER), "tests/hub/test_queue_and_quota.py", "tests/slice/test_governor")


@dataclass(frozen=True)
class Traces:
    """By what the programs of one process of the run are known: its folder, and a mark in their environment."""

    scratch: str
    mark: str


def new_traces(folder: str) -> Traces:
    """Return traces of a new process; makes its folder in `folder`."""
    return Traces(tempfile.mkdtemp(prefix="jvgpu-test-", dir=folder), uuid.uuid4().hex)


# Before pytest settles on its own folder for temporary files.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give this process a folder and a mark of its own, so that what it leaves behind is known for its own."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        # xdist means it to lie in the folder of who hands out the tests: closed to other users, and a longer path.
        config.option.basetemp = None
    config.stash[_elsewhere] = tempfile.gettempdir()
    config.stash[_workers] = []
    config.stash[_own] = own = Traces(*workerinput["traces"]) if workerinput else new_traces(tempfile.gettempdir())
    os.environ["TMPDIR"], os.environ[RUN_MARK] = own.scratch, own.mark
    tempfile.tempdir = None
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STARTUP, os.environ.get("PYTHONPATH"))))
    # What pytest makes of the tests' assertions takes a worker two seconds; kept, it takes the next run none, also
    # where $PYTHONDONTWRITEBYTECODE has Python keep nothing.
    sys.dont_write_bytecode = False
    # A shell ignores them in what it starts in the background, and so would every program that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # The same under nohup; a handler that does nothing keeps this run alive, and is no handler of what it starts.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Make a worker's folder beside this process's own."""
    traces = new_traces(node.config.stash[_elsewhere])
    node.config.stash[_workers].append(traces)
    node.workerinput["traces"] = (traces.scratch, traces.mark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out the tests file by file, so that what a module's tests share is started once."""
    if config.getoption("dist") != "load":  # xdist's own word for "not said"
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = next((group for group in TOGETHER if nodeid.startswith(group)), None)
            return group[0] if group else super()._split_scope(nodeid)

    # Folder by folder: xdist would keep files of few tests for the end, and among those are the longest.
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove all traces; those of a worker are for who made it, which outlives one that was killed or interrupted."""
    if hasattr(config, "workerinput") or _own not in config.stash:
        return
    for traces in (config.stash[_own], *config.stash[_workers]):
        end_all(traces)
        shutil.rmtree(traces.scratch, ignore_errors=True)


def end_all(traces: Traces) -> None:
    """End what an interrupted worker or a faulty test has left running: a hub that is told to ends its servers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _processes_of(traces, by_command=False):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + GRACE_SECONDS
        while _processes_of(traces, by_command=False) and time.monotonic() < deadline:
            time.sleep(0.1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    gpu_is_there = Path("/dev/nvidiactl").exists()
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / "gpu"):
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and not gpu_is_there:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU: there is no /dev/nvidiactl"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which many tests needed the second try that CI gives them: one is bad luck, many are a fault.

    Where workers share a run, only who hands out the tests has a reporter, and hears of all.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    tried_again = reporter.stats.get("rerun", []) if reporter is not None else []
    if len(tried_again) > MOST_SECOND_TRIES and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\n{len(tried_again)} tests had to be tried again; at most {MOST_SECOND_TRIES} may")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the run if it leaves a process, a file in the temporary folder or a piece of shared memory."""
    own = request.config.stash[_own]
    shared_memory_before = _names(SHARED_MEMORY)

    yield

    # What was told to end by the last fixture may still be at it.
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := _left_behind(own, shared_memory_before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "left behind by the tests:\n  " + "\n  ".join(left)


_own = pytest.StashKey[Traces]()
_workers = pytest.StashKey[list[Traces]]()
_elsewhere = pytest.StashKey[str]()  # where temporary files went before


def _left_behind(own: Traces, shared_memory_before: set[str]) -> list[str]:
    """Return what there is of this process's, in words."""
    left = [f"process {pid}: {command}" for pid, command in _processes_of(own).items()]
    left += [f"file {own.scratch}/{name}" for name in _names(Path(own.scratch)) if not name.startswith(NOT_OURS)]
    left += [f"shared memory {name}" for name in _names(SHARED_MEMORY) - shared_memory_before if "vgpu" in name]
    return left


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


def _processes_of(traces: Traces, by_command: bool = True) -> dict[int, str]:
    """Return pid and command of each process that carries the mark or works in the folder.

    A server started by a hub has lost the environment's mark, but its files lie in the run's folder. A browser has
    written over its environment, but names the folder in its command, as somebody may who only looks into it.
    """
    mark = f"{RUN_MARK}={traces.mark}".encode()
    scratch = traces.scratch.encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue  # ended meanwhile, or another user's
        if mark in environment.split(b"\0") or scratch in environment or (by_command and scratch in command):
            found[int(entry.name)] = command.decode(errors="replace").strip()
    return found
