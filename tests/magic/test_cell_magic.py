"""`%%vgpu`, `%vgpu top`, `%vgpu free` and `%vgpu watch` in real shells on a simulated board."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from harness.agents import NodeAgent
from jupyter_vgpu.magic.cell import CellCost, CellWatch
from jupyter_vgpu.magic.trace import MOST_VALUES, Trace
from jupyter_vgpu.model import ClaimRequest, Memory, Profile

RunCells = Callable[..., list[dict[str, Any]]]
GIB = 1 << 30

START = """
import subprocess, sys, time
from cuda.bindings import driver

def check(answer):
    status, *values = answer
    if status:
        raise RuntimeError(status.name)
    return values[0] if values else None

check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
module = check(driver.cuModuleLoadData(b"text"))
busy = check(driver.cuModuleGetFunction(module, b"sim_busy_2000us"))
kept = check(driver.cuMemAlloc(1 << 30))

def launch(times):
    for _ in range(times):
        check(driver.cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    check(driver.cuCtxSynchronize())
"""
# 2 GiB more for a quarter of a second, and 200 launches of 2 ms each: 0.4 s of GPU time.
BUSY = """%%vgpu
more = check(driver.cuMemAlloc(2 << 30))
launch(200)
time.sleep(0.25)
check(driver.cuMemFree(more))
print("done")
6 * 7
"""
BUSY_AS_JSON = BUSY.replace("%%vgpu", "%%vgpu --json")
# What the agent itself has counted so far.
AGENT = """
from jupyter_vgpu.client import UserClient
[process] = UserClient.from_environment().usage()["processes"]
process["devices"][0]["gpu_time_seconds"]
"""
HELD_BACK = """
from jupyter_vgpu.client import UserClient
[process] = UserClient.from_environment().usage()["processes"]
{name: process["devices"][0][name] for name in ("throttled_launches", "gated_seconds")}
"""
FILLED = """
from jupyter_vgpu.client import UserClient
[process] = UserClient.from_environment().usage()["processes"]
process["devices"][0]["sm_seconds"] / process["devices"][0]["gpu_time_seconds"]
"""
FAILING = """%%vgpu
check(driver.cuMemAlloc(100 << 30))
"""
# Ends what a cell forked once that has gone through the cell too: with 1 if it showed anything, else 0.
END_FORKED = """
import os
parent = os.getpid()

def end_forked(result):
    if os.getpid() != parent:
        os._exit(result.result is not None or bool(get_ipython().display_pub.outputs))

get_ipython().events.register("post_run_cell", end_forked)
"""
FORKING = """%%vgpu
forked = os.fork()
if not forked:
    {then}
"""
# Another process of the slice, in the place of another notebook's Jupyter kernel.
NEIGHBOUR = """
import os
other = subprocess.Popen([sys.executable, "-c", '''
import sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
error, pointer = driver.cuMemAlloc(3 << 30)
assert error == 0, error
print("held", flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert other.stdout.readline() == "held\\n"
"""
# A module of torch's name and interface that keeps real memory of the board, as torch's allocator does.
TORCH = """
import types

class Cuda:
    block = None
    def is_initialized(self): return True
    def device_count(self): return 1
    def memory_reserved(self, index): return 4 << 30 if self.block else 0
    def memory_allocated(self, index): return 1 << 30 if self.block else 0
    def empty_cache(self):
        check(driver.cuMemFree(self.block))
        self.block = None

torch = types.ModuleType("torch")
torch.cuda = Cuda()
torch.cuda.block = check(driver.cuMemAlloc(4 << 30))
sys.modules["torch"] = torch
"""


@pytest.fixture(scope="module")
def measured(run_cells: RunCells) -> list[dict[str, Any]]:
    refused = ["%%vgpu\nawait nothing()", "%%vgpu top\n1"]
    failing_as_json = FAILING.replace("%%vgpu", "%%vgpu --json")
    return run_cells(START, BUSY, BUSY_AS_JSON, FAILING, *refused, "kept", AGENT, BUSY_AS_JSON, AGENT, failing_as_json)


def test_the_cost_of_a_cell_is_what_it_used(measured: list[dict[str, Any]]) -> None:
    cost = json.loads(measured[2]["printed"].partition("done\n")[2])

    assert 3 * GIB <= cost["peak_bytes"] < 3.1 * GIB
    assert GIB <= cost["memory_bytes"][0] < 1.1 * GIB
    assert GIB <= cost["memory_bytes"][-1] < 1.1 * GIB
    assert cost["launches"] == 200
    assert cost["wall_seconds"] >= 0.65
    assert cost["torch_peak"] is None


def test_the_gpu_time_of_a_cell_is_what_the_agent_counted_meanwhile(measured: list[dict[str, Any]]) -> None:
    before, after = (float(measured[place]["shown"]["text/plain"]) for place in (7, 9))

    cost = json.loads(measured[8]["printed"].partition("done\n")[2])

    assert cost["gpu_seconds"] == pytest.approx(after - before, rel=0.02)
    assert cost["gpu_seconds"] > 0.1


def test_a_cell_says_which_of_its_launches_were_held_back_and_no_other_cells(run_cells: RunCells) -> None:
    queueing, resting = "%%vgpu {}\nlaunch(200)", "%%vgpu {}\n6 * 7"

    results = run_cells(
        *(START, "launch(200)", HELD_BACK, queueing.format("--json"), HELD_BACK),
        *(queueing.format(""), resting.format("--json"), resting.format("")),
        wishes=("--ceiling", "1/4"),
    )

    before, after = (ast.literal_eval(results[place]["shown"]["text/plain"]) for place in (2, 4))
    cost = json.loads(results[3]["printed"])
    assert before["throttled_launches"] > 0, "the cell before was held back too"
    assert 0 < cost["throttled_launches"] == after["throttled_launches"] - before["throttled_launches"] <= 200
    assert 0 < cost["gated_seconds"] == pytest.approx(after["gated_seconds"] - before["gated_seconds"])
    shown = results[5]["shown"]
    [said] = re.findall(r"^held back     ([1-9]\d* launches, for \d+\.\d s)$", shown["text/plain"], re.MULTILINE)
    assert f'>held back</th><td style="text-align:left">{said}</td>' in shown["text/html"]
    rested = json.JSONDecoder().raw_decode(results[6]["printed"].removeprefix("42\n"))[0]
    assert (rested["throttled_launches"], rested["gated_seconds"]) == (0, 0)
    assert "held back" not in str(results[7]["shown"])


def test_the_cost_is_shown_as_text_and_as_html_with_a_chart(measured: list[dict[str, Any]]) -> None:
    shown = measured[1]["shown"]

    assert "peak memory   3.0 GiB (1.0 GiB before, 1.0 GiB after)" in shown["text/plain"]
    assert "launches      200" in shown["text/plain"]
    assert "█" in shown["text/plain"]
    assert "3.0 GiB (1.0 GiB before, 1.0 GiB after)" in shown["text/html"]
    assert (
        '<svg role="img" aria-label="Memory of this notebook while the cell ran, at most 3.0 GiB"' in shown["text/html"]
    )


def test_the_cell_prints_and_shows_what_it_would_without(measured: list[dict[str, Any]]) -> None:
    assert measured[1]["printed"].startswith("done\n")
    assert measured[1]["displayed"] == [{"text/plain": "42"}]


def test_a_cell_that_fails_fails_with_its_own_error_and_still_shows_its_cost(measured: list[dict[str, Any]]) -> None:
    assert measured[3]["error"] == "RuntimeError: CUDA_ERROR_OUT_OF_MEMORY"
    traceback = re.sub(r"\x1b\[[\d;]*m", "", measured[3]["printed"])
    assert set(re.findall(r"In ?\[(\d+)\]", traceback)) == {"2", "5"}, "START and this cell"
    assert "jupyter_vgpu" not in traceback
    assert "peak memory" in measured[3]["displayed"][0]["text/plain"]
    # The names of the cells before are there afterwards.
    assert measured[6]["error"] == ""


def test_a_cell_that_fails_prints_its_cost_as_json_and_no_more(measured: list[dict[str, Any]]) -> None:
    cost, _ = json.JSONDecoder().raw_decode(measured[10]["printed"])

    assert cost["memory_bytes"][0] >= GIB
    # The explanation of its error stands below.
    [explanation] = measured[10]["displayed"]
    assert explanation["text/plain"].startswith("Your slice of the GPU is 19.8 GiB")


@pytest.mark.parametrize("then", ["pass", "raise ValueError('in the child')", "raise SystemExit"])
def test_a_cell_that_forks_shows_its_cost_once(run_cells: RunCells, then: str) -> None:
    _, cost, showed = run_cells(END_FORKED, FORKING.format(then=then), "os.waitpid(forked, 0)[1]")

    assert "peak memory" in cost["shown"]["text/plain"]
    assert showed["shown"]["text/plain"] == "0"


@pytest.mark.parametrize(("place", "said"), [(4, "put it into one"), (5, "'top' is not known")])
def test_what_cannot_be_measured_is_refused(measured: list[dict[str, Any]], place: int, said: str) -> None:
    assert said in measured[place]["error"]


def test_a_slip_is_refused_with_what_was_probably_meant(run_cells: RunCells) -> None:
    errors = [result["error"] for result in run_cells("%vgpu tpo", "%vgpu FREE", "%vgpu xyzzy", in_slice=False)]

    assert [error.rpartition("nothing at all")[2] for error in errors] == [
        ". Did you mean top?",
        ". Did you mean free?",
        "",
    ]


def test_without_a_slice_a_cell_runs_and_says_so(run_cells: RunCells) -> None:
    [result] = run_cells("%%vgpu\n6 * 7", in_slice=False)

    assert result["displayed"] == [{"text/plain": "42"}]
    assert "none (unknown-claim)" in result["shown"]["text/plain"]


def test_top_shows_this_notebook_with_what_it_started(run_cells: RunCells) -> None:
    results = run_cells(START, NEIGHBOUR, "%vgpu top", "%vgpu top --json", "other.communicate()[0]")

    assert results[2]["shown"]["text/plain"].splitlines()[0].startswith("who")
    assert '<th scope="col"' in results[2]["shown"]["text/html"]
    [row] = json.loads(results[3]["printed"])["rows"]
    assert row["name"] == "this notebook"
    assert 4 * GIB <= row["memory_bytes"] < 4.1 * GIB
    assert row["gpu_fraction"] is not None
    assert row["sm_usage"] is not None


def test_launches_of_one_block_fill_one_of_the_boards_108_sms(run_cells: RunCells) -> None:
    results = run_cells(START, "launch(50)", FILLED)

    assert float(results[2]["shown"]["text/plain"]) == pytest.approx(1 / 108, rel=0.01)


def test_top_tells_other_notebooks_by_their_file(run_cells: RunCells) -> None:
    # Not started by this notebook: its starter has ended, and it leads a session of its own.
    elsewhere = NEIGHBOUR.replace("[sys.executable,", "['setsid', '--fork', sys.executable,").replace(
        "text=True)", "text=True, env={**os.environ, 'JPY_SESSION_NAME': '/work/two.ipynb'})"
    )

    results = run_cells(START, elsewhere, "%vgpu top --json", "other.communicate()[0]")

    rows = json.loads(results[2]["printed"])["rows"]
    assert [(row["name"], row["is_notebook"]) for row in rows] == [("this notebook", False), ("two.ipynb", True)]
    assert 3 * GIB <= rows[1]["memory_bytes"] < 3.1 * GIB


def test_free_gives_back_what_a_framework_caches_and_says_how_much(run_cells: RunCells) -> None:
    results = run_cells(START, TORCH, "%vgpu free", "%vgpu free --json", in_slice=True)

    assert results[2]["shown"]["text/plain"] == "Freed 4.0 GiB (torch). This notebook now holds 1.0 GiB of its slice."
    assert json.loads(results[3]["printed"])["asked"] == ["torch"]


def test_free_without_a_framework_says_so(run_cells: RunCells) -> None:
    [_, freed] = run_cells(START, "%vgpu free")

    assert "no framework that caches GPU memory is loaded" in freed["shown"]["text/plain"]


def test_free_lets_go_of_what_the_last_traceback_holds(run_cells: RunCells) -> None:
    tensor = """
class Tensor:
    def __init__(self): self.pointer = check(driver.cuMemAlloc(2 << 30))
    def __del__(self): check(driver.cuMemFree(self.pointer))

def fail():
    local = Tensor()
    raise ValueError("halfway")
"""

    results = run_cells(START, tensor, "fail()", "%vgpu free")

    assert results[2]["error"] == "ValueError: halfway"
    assert results[3]["shown"]["text/plain"].startswith("Freed 2.0 GiB")


def test_watch_shows_who_uses_the_slice_and_ends_by_itself(run_cells: RunCells) -> None:
    [watched, as_json, typo, too_long] = run_cells(
        "%vgpu watch --seconds 1",
        "%vgpu watch --seconds 1 --json",
        "%vgpu watch --seconds 1e3",
        "%vgpu watch --seconds 0",
    )

    assert watched["error"] == ""
    assert "this notebook" in watched["displayed"][0]["text/plain"]
    for line in as_json["printed"].splitlines():
        assert [row["name"] for row in json.loads(line)["rows"]] == ["this notebook"]
    assert (as_json["displayed"], as_json["error"]) == ([], "")
    assert "1 to 3600" in typo["error"]
    assert "1 to 3600" in too_long["error"]


INTERRUPTED = """
import time
waits, real = [], time.sleep

def sleep(seconds):
    waits.append(seconds)
    if len(waits) == {wait}:
        raise KeyboardInterrupt
    real(seconds)

time.sleep = sleep
"""


@pytest.mark.parametrize(("wait", "shown"), [(1, 0), (2, 1)], ids=["before it shows anything", "later"])
def test_an_interrupt_ends_a_watch_without_a_traceback(run_cells: RunCells, wait: int, shown: int) -> None:
    [_, watched] = run_cells(INTERRUPTED.format(wait=wait), "%vgpu watch")

    assert (watched["error"], len(watched["displayed"])) == ("", shown)
    assert watched["printed"] == "watched until it was interrupted\n"


def test_seconds_are_refused_where_nothing_is_watched(run_cells: RunCells) -> None:
    refused = run_cells("%vgpu --seconds 5", "%vgpu top --seconds 5", "%%vgpu --seconds 5\nprint('ran')")

    for result in refused:
        assert "--seconds is for `%vgpu watch`" in result["error"]
        assert result["printed"] == ""


def test_an_agent_that_was_away_while_a_cell_ran_costs_no_figures(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile("1/4 GPU", share_ppm=250_000, ceiling_ppm=1_000_000, memory=Memory(Fraction(1, 4)))
    with NodeAgent(tmp_path_factory.mktemp("agent")).running() as agent:
        granted = agent.hub.create_claim(ClaimRequest("ada", "a hub", os.getuid(), profile))
        for name in ("JUPYTER_VGPU_API", "JUPYTER_VGPU_SECRET"):
            monkeypatch.setenv(name, granted.edits.env[name])

        with CellWatch() as watch:
            agent.end(signal.SIGKILL)
            missed = CellWatch()
            with missed:
                pass
            agent.start()

    assert missed.cost().reason == "agent-unreachable"
    assert (watch.cost().reason, watch.cost().launches) == ("", 0)


def test_what_is_seen_of_a_long_cell_stays_small_and_keeps_its_peak() -> None:
    looks, peak, seconds, peak_at = 20_000, 7 << 30, 0.0, 0.0
    trace = Trace()
    for look in range(looks):
        trace.add(peak if look == 12_345 else look)
        peak_at = seconds if look == 12_345 else peak_at
        seconds += trace.period_seconds

    assert len(trace.values) <= MOST_VALUES
    assert (trace.first, trace.last, max(trace.values)) == (0, looks - 1, peak)
    # It is evenly spaced: the peak stands where it was.
    assert trace.values.index(peak) / len(trace.values) == pytest.approx(peak_at / seconds, abs=0.01)
    assert seconds / looks < 2, "it was looked at too seldom"
    html = CellCost(seconds, trace.values, trace.first, trace.last)._repr_mimebundle_()["text/html"]
    assert len(html) < 8_000


def test_the_magic_goes_and_comes_with_the_extension(run_cells: RunCells) -> None:
    fail = "raise RuntimeError('CUDA_ERROR_OUT_OF_MEMORY')"

    once, without, again = run_cells(
        f"%load_ext jupyter_vgpu\n{fail}", f"%unload_ext jupyter_vgpu\n{fail}", f"%load_ext jupyter_vgpu\n{fail}"
    )

    assert [len(result["displayed"]) for result in (once, without, again)] == [1, 0, 1]
