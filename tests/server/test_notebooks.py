"""Which notebook uses how much: pure, and with real Jupyter kernels in a real slice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from jupyter_vgpu.client import UsageInfo
from jupyter_vgpu.processes import notebook_of, started_by
from jupyter_vgpu.server.notebooks import Kernel, Starters, by_notebook

Server = Any
GIB = 1 << 30

HOLD_2_GIB = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
error, pointer = driver.cuMemAlloc(2 << 30)
assert error == 0, error
"""
# A worker process, as data loaders start them, holds 1 GiB until the notebook lets it go.
WORKER = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", '''
import sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
error, pointer = driver.cuMemAlloc(1 << 30)
assert error == 0, error
print("held", flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert worker.stdout.readline() == "held\\n"
"""
END_WORKER = "worker.communicate()"


def process(pid: int, memory_bytes: int = 0, **figures: float) -> dict[str, Any]:
    device = {"uuid": "GPU-1", "memory_bytes": memory_bytes, "launches": 1, **figures}
    return {"pid": pid, "name": "python", "attached_at": 0.0, "devices": [device]}


def usage(at: float, *processes: dict[str, Any]) -> UsageInfo:
    return cast(UsageInfo, {"time": at, "devices": [{"uuid": "GPU-1"}], "processes": list(processes)})


def starter(families: dict[int, int]) -> Any:
    """Return a starter for a world in which `families` says who started whom."""

    def started(pid: int, starters: Collection[int]) -> int | None:
        found = families.get(pid, pid)
        return found if found in starters else None

    return started


ONE = Kernel("k1", "python3", "idle", 10, "one.ipynb", "notebook")
TWO = Kernel("k2", "python3", "busy", 20, "two.ipynb", "notebook")


def test_a_notebook_has_what_its_processes_have_together() -> None:
    now = usage(1.0, process(10, 5), process(11, 7), process(20, 1), process(99, 50))

    one, two = by_notebook(now, None, [ONE, TWO], starter({11: 10}))

    assert (one["path"], one["pids"], one["devices"][0]["memory_bytes"]) == ("one.ipynb", [10, 11], 12)
    assert (two["path"], two["pids"], two["devices"][0]["memory_bytes"]) == ("two.ipynb", [20], 1)


def test_a_notebook_that_does_not_use_the_slice_has_nothing_of_it() -> None:
    notebooks = by_notebook(usage(1.0, process(99)), None, [ONE, TWO], starter({}))

    assert [(one["path"], one["pids"], one["devices"][0]["memory_bytes"]) for one in notebooks] == [
        ("one.ipynb", [], 0),
        ("two.ipynb", [], 0),
    ]


def test_sm_usage_is_there_where_every_process_has_it() -> None:
    before = usage(1.0, process(10, sm_seconds=1.0))
    [both] = by_notebook(
        usage(3.0, process(10, sm_seconds=1.5), process(11, sm_seconds=1.0)), before, [ONE], starter({11: 10})
    )
    [one] = by_notebook(usage(3.0, process(10, sm_seconds=1.5), process(11)), before, [ONE], starter({11: 10}))
    [none] = by_notebook(usage(3.0), before, [ONE], starter({}))

    assert both["devices"][0]["sm_usage"] == 0.75
    assert "sm_usage" not in one["devices"][0]
    assert "sm_usage" not in none["devices"][0]


def test_fractions_are_since_the_reading_before() -> None:
    before = usage(10.0, process(10, gpu_time_seconds=3.0, waited_seconds=1.0))
    now = usage(12.0, process(10, gpu_time_seconds=4.0, waited_seconds=1.5))

    [one] = by_notebook(now, before, [ONE], starter({}))

    assert one["devices"][0]["gpu_time_fraction"] == pytest.approx(0.5)
    assert one["devices"][0]["waiting_fraction"] == pytest.approx(0.25)


def test_time_that_an_agent_does_not_measure_is_left_out() -> None:
    [one] = by_notebook(usage(12.0, process(10)), usage(10.0, process(10)), [ONE], starter({}))

    assert "gpu_time_seconds" not in one["devices"][0]
    assert "gpu_time_fraction" not in one["devices"][0]


def test_a_process_is_traced_to_who_started_it_also_when_its_parent_is_gone() -> None:
    # The leader ends at once in the middle: the last one is nobody's child any more, but of the same session.
    leader = subprocess.Popen(
        ["sh", "-c", "sh -c 'sleep 600 & echo $!'; cat >/dev/null"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert leader.stdout is not None and leader.stdin is not None
    orphan = int(leader.stdout.readline())
    try:
        assert started_by(orphan, {leader.pid}) == leader.pid
        assert started_by(leader.pid, {leader.pid}) == leader.pid
        assert started_by(leader.pid, {os.getpid()}) == os.getpid()
        assert started_by(os.getpid(), {leader.pid}) is None
    finally:
        os.kill(orphan, 9)
        leader.communicate()


def test_who_started_a_process_is_remembered_until_another_may_have_its_number() -> None:
    starters, own = Starters(), os.getpid()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    described = process(child.pid)
    starters.keep([cast(Any, described)])

    found = [starters.starter(child.pid, {own})]
    child.communicate()
    found.append(starters.starter(child.pid, {own}))
    starters.keep([cast(Any, {**described, "attached_at": 1.0})])
    found.append(starters.starter(child.pid, {own}))

    assert found == [own, own, None]


def test_a_process_that_is_not_there_is_nobodys() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    assert started_by(ended.pid, {os.getpid()}) is None
    assert notebook_of(ended.pid) == ""


class Notebook:
    """A session of the server, as JupyterLab makes one, and a client of its Jupyter kernel."""

    def __init__(self, server: Server, path: str) -> None:
        self._http = server.client()
        body = {"path": path, "type": "notebook", "name": path, "kernel": {"name": "python3"}}
        answer = self._http.post("api/sessions", json=body).raise_for_status().json()
        self.kernel_id = answer["kernel"]["id"]
        environment = Path(f"/proc/{server.process.pid}/environ").read_bytes().split(b"\0")
        [runtime] = [entry.decode().partition("=")[2] for entry in environment if entry.startswith(b"JUPYTER_RUNTIME_")]
        self._client = BlockingKernelClient(connection_file=f"{runtime}/kernel-{self.kernel_id}.json")
        self._client.load_connection_file()
        self._client.start_channels()
        self._wait_until_ready(time.monotonic() + 240)

    def _wait_until_ready(self, deadline: float) -> None:
        while True:
            try:
                return self._client.wait_for_ready(30)
            except RuntimeError:
                # Old clients take a Jupyter kernel that does not answer yet for dead.
                assert time.monotonic() < deadline

    def run(self, source: str) -> None:
        """Run a cell, which must not fail."""
        reply = self._client.execute_interactive(source, timeout=240, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok", reply["content"]

    def close(self) -> None:
        """Shut the Jupyter kernel down."""
        self._client.stop_channels()
        self._http.delete(f"api/kernels/{self.kernel_id}").raise_for_status()
        self._http.close()


@pytest.fixture
def notebooks(server: Server) -> Iterator[list[Notebook]]:
    started: list[Notebook] = []
    for path in ("one.ipynb", "work/two.ipynb"):
        started.append(Notebook(server, path))
    yield started
    for notebook in started:
        notebook.close()


def settled(server: Server, names: set[str]) -> list[dict[str, Any]]:
    """Return the notebooks of a reading in which exactly `names` use the slice; a process's end is seen later."""
    deadline = time.monotonic() + 120
    while True:
        seen = [notebook for notebook in server.get("jupyter-vgpu/usage")["notebooks"] if notebook["pids"]]
        if {notebook["path"] for notebook in seen} == names or time.monotonic() > deadline:
            return cast("list[dict[str, Any]]", seen)


def test_each_notebook_gets_what_its_own_processes_hold(server: Server, notebooks: list[Notebook]) -> None:
    one, two = notebooks
    one.run(HOLD_2_GIB)
    two.run(WORKER)

    first, second = settled(server, {"one.ipynb", "work/two.ipynb"})

    assert (first["kernel_id"], first["kind"], first["kernel_name"]) == (one.kernel_id, "notebook", "python3")
    assert 2 * GIB <= first["devices"][0]["memory_bytes"] < 3 * GIB
    # The worker's memory is its notebook's.
    assert (second["kernel_id"], second["path"]) == (two.kernel_id, "work/two.ipynb")
    assert GIB <= second["devices"][0]["memory_bytes"] < 2 * GIB
    assert notebook_of(first["pids"][0]).endswith("one.ipynb")

    two.run(END_WORKER)
    [left] = settled(server, {"one.ipynb"})
    assert left["kernel_id"] == one.kernel_id


def test_a_document_that_has_no_name_yet_is_not_shown_by_a_number(server: Server, open_stream: Any) -> None:
    """JupyterLab opens a session under a made-up path, and gives it the document's once the Jupyter kernel is there."""
    stream = open_stream(server)
    made_up = f"work/{uuid.uuid4()}"
    body = {"path": made_up, "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    with server.client() as client:
        session = client.post("api/sessions", json=body).raise_for_status().json()
        paths = [paths_of(stream, session)]
        client.patch(f"api/sessions/{session['id']}", json={"path": "work/new.ipynb"}).raise_for_status()
        while paths[-1] != "work/new.ipynb":
            paths.append(paths_of(stream, session))
        client.delete(f"api/sessions/{session['id']}").raise_for_status()

    assert set(paths) == {"", "work/new.ipynb"}


def paths_of(stream: Any, session: dict[str, Any]) -> str:
    """Return the path of a session's document in the next event that has its Jupyter kernel."""
    while True:
        for notebook in stream.next()["notebooks"]:
            if notebook["kernel_id"] == session["kernel"]["id"]:
                return str(notebook["path"])
